//go:build kube

package kube

import (
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/meshctl/meshctl/internal/lab"
)

// Node is a worker: a machine with its own network, processes, mounts and names.
type Node struct {
	Name string
	Addr netip.Addr

	lab.Namespace
	fabric fabric
	pods   netip.Prefix
	dir    string
	group  string
	init   *lab.Process
}

// newNode makes the machine and starts it. The n-th worker is wN.
func (k *Kube) newNode(n int) (_ *Node, err error) {
	node := &Node{Name: "w" + strconv.Itoa(n), Addr: hostAddr(byte(20 + n)), fabric: k.fabric}
	node.dir, node.group = filepath.Join(k.Dir, node.Name), prefix+k.fabric.run+"-"+node.Name
	third := pods.Addr().As4()
	third[2] = byte(n)
	node.pods = netip.PrefixFrom(netip.AddrFrom4(third), 24)
	if err := os.MkdirAll(filepath.Join(node.dir, "etc-cni-net.d"), 0o700); err != nil {
		return nil, err
	}
	if node.Namespace, err = k.fabric.attach(node.Name, node.Addr); err != nil {
		return nil, err
	}
	if err := errors.Join(forwards(node.Namespace), node.Feed(fmt.Sprintf(nodeRules, node.pods, pods), "nft", "-f", "-")); err != nil {
		return nil, err
	}
	if err := k.writeNodeFiles(node); err != nil {
		return nil, err
	}
	return node, k.power(node)
}

// What a pod sends out of the cluster comes from its worker, whose address the
// others know.
const nodeRules = `table ip out {
	chain post {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %s ip daddr != %s masquerade
	}
}
`

// power starts the first process of the machine.
func (k *Kube) power(node *Node) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), machineVariable+"="+filepath.Join(node.dir, "machine.json"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID}
	node.init, err = node.Start("init", filepath.Join(node.dir, "init.log"), cmd)
	return err
}

// off ends the machine as a power cut does: nobody is told, and packets to it
// vanish. What it was is removed.
func (n *Node) off() error {
	err := n.fabric.detach(n.Name)
	return errors.Join(err, n.init.Kill(), n.Remove(), removeGroups(n.group))
}

// inside runs a program in the machine.
func (n *Node) inside(program ...string) error {
	args := append([]string{"--target", strconv.Itoa(n.init.Process.Pid), "--mount", "--uts", "--ipc", "--net", "--pid"}, program...)
	return lab.Command("", "nsenter", args...)
}

func (k *Kube) writeNodeFiles(n *Node) error {
	user := "node-" + n.Name
	subject := pkix.Name{CommonName: "system:node:" + n.Name, Organization: []string{"system:nodes"}}
	if err := k.control.ca.issue(user, subject, n.Name, n.Addr.String()); err != nil {
		return err
	}
	kubeconfig, err := k.control.pki.kubeconfig(user, k.control.url())
	if err != nil {
		return err
	}
	proxyConfig, err := k.control.pki.kubeconfig("proxy", k.control.url())
	if err != nil {
		return err
	}
	kubelet, proxy, containerd := filepath.Join(n.dir, "kubelet.yaml"), filepath.Join(n.dir, "proxy.yaml"), filepath.Join(n.dir, "containerd.toml")
	return errors.Join(
		writeJSON(kubelet, n.kubelet(k.control.pki, user)),
		writeJSON(proxy, n.proxy(proxyConfig)),
		os.WriteFile(containerd, []byte(containerdConfig), 0o600),
		writeJSON(filepath.Join(n.dir, "etc-cni-net.d", "10-bridge.conflist"), n.network()),
		writeJSON(filepath.Join(n.dir, "machine.json"), machine{
			Name: n.Name, Dir: n.dir, Group: n.group, Images: k.images,
			Programs: [][]string{
				{"/usr/bin/containerd", "--config", containerd},
				{k.program, "kubelet", "--config=" + kubelet, "--kubeconfig=" + kubeconfig, "--hostname-override=" + n.Name, "--node-ip=" + n.Addr.String(), "--v=2"},
				{k.program, "kube-proxy", "--config=" + proxy, "--hostname-override=" + n.Name},
			},
		}))
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func (n *Node) kubelet(keys pki, user string) map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.group, "failSwapOn": false,
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": keys.cert("ca")}},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   keys.cert(user), "tlsPrivateKeyFile": keys.key(user),
		"containerRuntimeEndpoint": "unix://" + runtimeSocket, "resolvConf": "", "maxPods": 40,
		"nodeStatusUpdateFrequency": "5s", "nodeLeaseDurationSeconds": 20, "syncFrequency": "10s",
		"imageGCHighThresholdPercent": 100, // however full the disk of this machine is: nobody could pull an image again
		"evictionHard":                map[string]any{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
	}
}

// proxy leaves limits of the connection table alone, which a network namespace
// cannot change.
func (n *Node) proxy(kubeconfig string) map[string]any {
	return map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
		"clientConnection": map[string]any{"kubeconfig": kubeconfig}, "clusterCIDR": pods.String(),
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

func (n *Node) network() map[string]any {
	return map[string]any{"cniVersion": "1.0.0", "name": "pods", "plugins": []any{
		map[string]any{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": map[string]any{"type": "host-local", "ranges": [][]any{{map[string]any{"subnet": n.pods.String()}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}},
		map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
	}}
}

// restrict_oom_score_adj is for hosts that may not make a process more important
// than their own.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "` + runtimeSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + plugins + `"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`
