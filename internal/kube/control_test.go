//go:build kube

package kube

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

const apiPort = 6443

// controlPlane is etcd and the programs around the API server on one host.
type controlPlane struct {
	lab.Namespace
	addr                        netip.Addr
	program                     string // kube
	dir, logs                   string
	pki                         pki
	ca                          *authority
	etcd, api, kcm, scheduler   *lab.Process
	controllerConf, plannerConf string
}

func (c *controlPlane) url() string {
	return "https://" + netip.AddrPortFrom(c.addr, apiPort).String()
}

// prepare makes the keys of everybody but the workers.
func (c *controlPlane) prepare() error {
	var err error
	if c.ca, err = c.pki.newAuthority("ca"); err != nil {
		return err
	}
	etcd, err := c.pki.newAuthority("etcd-ca")
	if err != nil {
		return err
	}
	front, err := c.pki.newAuthority("front-ca")
	if err != nil {
		return err
	}
	masters := []string{"system:masters"}
	service := services.Addr().Next().String()
	for _, cert := range []struct {
		by      *authority
		file    string
		subject pkix.Name
		hosts   []string
	}{
		{etcd, "etcd", pkix.Name{CommonName: "etcd"}, []string{"127.0.0.1"}},
		{etcd, "etcd-client", pkix.Name{CommonName: "kube-apiserver"}, nil},
		{front, "front", pkix.Name{CommonName: "front-proxy-client"}, nil},
		{c.ca, "apiserver", pkix.Name{CommonName: "kube-apiserver"}, []string{"127.0.0.1", c.addr.String(), service, "kubernetes.default.svc"}},
		{c.ca, "kubelet-client", pkix.Name{CommonName: "apiserver", Organization: masters}, nil},
		{c.ca, "admin", pkix.Name{CommonName: "admin", Organization: masters}, nil},
		{c.ca, "kcm", pkix.Name{CommonName: "system:kube-controller-manager"}, []string{"127.0.0.1"}},
		{c.ca, "scheduler", pkix.Name{CommonName: "system:kube-scheduler"}, []string{"127.0.0.1"}},
		{c.ca, "proxy", pkix.Name{CommonName: "system:kube-proxy"}, nil},
		{c.ca, "metrics", pkix.Name{CommonName: "metrics-server", Organization: masters}, []string{metricsName + ".kube-system.svc"}},
	} {
		if err := cert.by.issue(cert.file, cert.subject, cert.hosts...); err != nil {
			return err
		}
	}
	if c.controllerConf, err = c.pki.kubeconfig("kcm", c.url()); err != nil {
		return err
	}
	if c.plannerConf, err = c.pki.kubeconfig("scheduler", c.url()); err != nil {
		return err
	}
	return c.pki.tokenKey("accounts")
}

func (c *controlPlane) run(part string, flags ...string) (*lab.Process, error) {
	return c.Start(part, filepath.Join(c.logs, part+".log"), exec.Command(c.program, append([]string{part}, flags...)...))
}

// up starts everything, and the API server last of what others need.
func (c *controlPlane) up(ctx context.Context) (err error) {
	if c.etcd, err = c.run("etcd", "--data-dir="+filepath.Join(c.dir, "etcd"), "--ca="+c.pki.cert("etcd-ca"),
		"--cert="+c.pki.cert("etcd"), "--key="+c.pki.key("etcd")); err != nil {
		return err
	}
	if err := c.startAPI(ctx); err != nil {
		return err
	}
	// Without an election: the only ones need not win one, and do not end when they
	// cannot renew it while the API server is away.
	if c.kcm, err = c.run("kube-controller-manager", append(sameConfig(c.controllerConf),
		"--root-ca-file="+c.pki.cert("ca"), "--service-account-private-key-file="+c.pki.key("accounts"),
		"--cluster-signing-cert-file="+c.pki.cert("ca"), "--cluster-signing-key-file="+c.pki.key("ca"),
		"--use-service-account-credentials=true", "--node-monitor-grace-period="+nodeGrace.String(),
		"--horizontal-pod-autoscaler-sync-period=5s", "--horizontal-pod-autoscaler-downscale-stabilization="+downscaleWindow.String(),
		"--horizontal-pod-autoscaler-cpu-initialization-period=20s", "--horizontal-pod-autoscaler-initial-readiness-delay=5s")...); err != nil {
		return err
	}
	c.scheduler, err = c.run("kube-scheduler", sameConfig(c.plannerConf)...)
	return err
}

// nodeGrace is after what silence a worker is NotReady; the default is 50 s.
const nodeGrace = 20 * time.Second

// downscaleWindow is for how long the highest number that an autoscaler found right
// stays; the default is 5 m.
const downscaleWindow = 20 * time.Second

func sameConfig(file string) []string {
	return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
		"--bind-address=127.0.0.1", "--leader-elect=false"}
}

// startAPI starts the API server and waits until it is ready.
func (c *controlPlane) startAPI(ctx context.Context) (err error) {
	p := c.pki
	if c.api, err = c.run("kube-apiserver",
		"--advertise-address="+c.addr.String(), "--bind-address=0.0.0.0", fmt.Sprint("--secure-port=", apiPort),
		"--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile="+p.cert("etcd-ca"),
		"--etcd-certfile="+p.cert("etcd-client"), "--etcd-keyfile="+p.key("etcd-client"),
		"--client-ca-file="+p.cert("ca"), "--tls-cert-file="+p.cert("apiserver"), "--tls-private-key-file="+p.key("apiserver"),
		"--kubelet-certificate-authority="+p.cert("ca"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+p.cert("kubelet-client"), "--kubelet-client-key="+p.key("kubelet-client"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range="+services.String(),
		"--service-account-key-file="+filepath.Join(string(p), "accounts.pub"), "--service-account-signing-key-file="+p.key("accounts"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--requestheader-client-ca-file="+p.cert("front-ca"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+p.cert("front"), "--proxy-client-key-file="+p.key("front"),
		"--enable-aggregator-routing=true", "--profiling=false"); err != nil {
		return err
	}
	admin, err := c.client("admin")
	if err != nil {
		return err
	}
	return retry(ctx, patience, "the API server is ready", func() error {
		if !c.api.Running() {
			return fmt.Errorf("it has ended\n%s", c.api.Tail(10))
		}
		_, err := admin.do(ctx, http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// down ends everything.
func (c *controlPlane) down() error {
	for _, p := range []*lab.Process{c.scheduler, c.kcm, c.api, c.etcd} {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(c.dir, "etcd"))
}
