package nodes

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/subs"
	"github.com/meshctl/meshctl/pkg/store"
)

// setPod says what pod an entry is.
func (n *network) setPod(f *fake, pod mesh.EntryPod) {
	n.t.Helper()
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Entries, mesh.EntryID(f.id.ID), func(e *mesh.Entry) error {
			e.Pod = pod
			return nil
		})
	})
}

// Between a backup and its restore pods come and go: those that the cluster has no
// more hold nobody up.
func TestARestoredMeshDoesNotWaitForPodsThatAreGone(t *testing.T) {
	t.Parallel()
	var stays, gone *fake
	pod := mesh.EntryPod{Cluster: mesh.NewKubeID(), Namespace: "meshctl-entry", Name: "meshctl-entry-1", UID: "1"}
	n := restored(t, time.Hour, func(n *network) {
		stays, gone = n.addEntry("stays"), n.addEntry("gone")
		n.setPod(gone, pod)
	})
	stays.greet().handsOver()
	if n.collected() {
		t.Fatal("it serves before the pod was heard, which may still be there")
	}
	pod.Gone = time.Now()
	n.setPod(gone, pod)
	eventually(t, "it serves", n.collected)
}

// Cores neither live at the addresses of entries in clusters nor let traffic out to
// them, whether they answer at the moment or not; clients are told those that do.
func TestAddressesOfClustersBelongToTheMesh(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	n.setConfig(func(c *mesh.Config) { c.EntryAddresses = []string{"93.184.216.35:443"} })
	id := mesh.NewKubeID()
	n.change(func(tx *store.Tx) error {
		return store.Create(tx, n.store.Kubes, id, mesh.KubeCluster{ID: id, Name: "north", Wanted: mesh.EntryRelease{Number: 1}})
	})
	state := mesh.KubeState{Cluster: id, Addresses: []mesh.KubeAddress{
		{Host: "93.184.216.40", Port: 443}, {Host: "93.184.216.41", Port: 443, Up: true},
	}}
	n.change(func(tx *store.Tx) error { return store.Create(tx, n.store.KubeStates, id, state) })
	eventually(t, "cores know them", func() bool {
		own := n.svc.own.Load().forEgress()
		return slices.Contains(own, "93.184.216.40") && slices.Contains(own, "93.184.216.41")
	})

	m := n.svc.Mirrors()
	told := subs.Mirrors{Settings: m.Config, Kubes: m.Kubes, KubeState: m.KubeStates}
	want := func(what string, addresses ...string) {
		t.Helper()
		eventually(t, what, func() bool { return slices.Equal(told.Config().EntryAddresses, addresses) })
	}
	want("clients learn the one that is up", "93.184.216.35:443", "93.184.216.41:443")
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.KubeStates, id, func(s *mesh.KubeState) error {
			s.Addresses[0].Up, s.Addresses[1].Up = true, false
			return nil
		})
	})
	want("and then the other", "93.184.216.35:443", "93.184.216.40:443")
}
