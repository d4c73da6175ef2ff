package kubes

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// told are the addresses that clients are told now.
func (w *world) told() []string {
	w.t.Helper()
	clusters, _, err := w.st.Kubes.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	states, _, err := w.st.KubeStates.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return mesh.Config{EntryAddresses: []string{"own.example.net:443"}}.WithKubes(mesh.Kubes{Clusters: clusters, States: states}).EntryAddresses
}

// Clients are told the addresses that answer, whatever the cluster says of them, and
// through leaders that come and go.
func TestClientsAreToldTheAddressesThatAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := openPort(t), openPort(t)
	w.deploy("registry.example.net/meshctl:1")
	o := kube.Observation{Applied: true, Desired: 2, Updated: 2, Ready: 2, Version: "v1.37.2", Addresses: []mesh.KubeAddress{a.address(), b.address()},
		Pods: []mesh.KubePod{{Name: "p1", UID: "1", Release: 1, Ready: true, Started: time.Now()}}}
	own, hostA, hostB := "own.example.net:443", a.addr.String(), b.addr.String()
	want := func(s *server, what string, hosts ...string) {
		t.Helper()
		slices.Sort(hosts)
		w.says(s, 1, o, what, func(mesh.KubeState) bool {
			got := w.told()
			slices.Sort(got[1:])
			return slices.Equal(got, append([]string{own}, hosts...))
		})
	}
	s := w.lead()
	want(s, "both are told", hostA, hostB)
	b.close()
	want(s, "one is told", hostA)
	s.stop()

	s = w.lead() // which begins with what was seen
	want(s, "still one is told", hostA)
	a.close()
	want(s, "none answers, and pods are ready: both are told", hostA, hostB)
	b.reopen()
	want(s, "the other is told", hostB)
	o.Failure, o.Addresses, o.Pods = kube.Unreachable, nil, nil
	w.says(s, 1, o, "the API is away", func(st mesh.KubeState) bool { return st.Contact == string(kube.Unreachable) })
	a.reopen()
	want(s, "addresses go on being tried", hostA, hostB)
	w.edit(func(c *mesh.KubeCluster) { c.Removing = true })
	eventually(t, "it is being emptied, and nobody is told of it", func() bool { return slices.Equal(w.told(), []string{own}) })
}

// The name of a cluster stands for its addresses while it leads to one.
func TestClientsAreToldTheNameWhileItLeadsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, dns := openPort(t), &names{}
	dns.set("mgmt.example.net", "198.51.100.1")
	w.edit(func(c *mesh.KubeCluster) {
		c.Wanted = mesh.EntryRelease{Number: 1, Pods: 1, Layer: mesh.EntryLayer{
			Image: "registry.example.net/meshctl:1", Service: mesh.EntryService{Name: "in.example.net"}}}
	})
	s := w.leadBy(dns)
	o := kube.Observation{Applied: true, Desired: 1, Updated: 1, Ready: 1, Addresses: []mesh.KubeAddress{a.address()}}
	told := func(what, host string) {
		t.Helper()
		w.says(s, 1, o, what, func(mesh.KubeState) bool { return slices.Equal(w.told(), []string{"own.example.net:443", host}) })
	}
	named := mesh.KubeAddress{Host: "in.example.net", Port: int(a.addr.Port())}.HostPort()
	told("there is no record yet", a.addr.String())
	dns.set("in.example.net", a.addr.Addr().String())
	told("the record is made", named)
	dns.set("in.example.net", "198.51.100.9")
	told("it leads elsewhere", a.addr.String())
}
