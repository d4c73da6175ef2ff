package mgmt

import (
	"errors"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A pod that its cluster deleted is forgotten when nobody can show its certificate
// any more, not before, and nobody is told that this ends; the same for pods of a
// cluster that is no longer the mesh's.
func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	w := getWorld(t)
	one, two := w.cluster(t), w.cluster(t)
	enroll := func(c *testCluster) *identity.Node {
		_, token := c.pod()
		n, _, err := w.enrollPod(t, c.ID, token)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	stays, gone, revoked, left := enroll(one), enroll(one), enroll(one), enroll(two)
	plain := w.node(t, mesh.RoleEntry)
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: revoked.Identity().ID})
	w.write(t, func(tx *store.Tx) error {
		for _, n := range []*identity.Node{gone, revoked} {
			err := store.Update(tx, w.store.Entries, mesh.EntryID(n.Identity().ID), func(e *mesh.Entry) error { e.Pod.Gone = time.Now(); return nil })
			if err != nil {
				return err
			}
		}
		return store.Delete(tx, w.store.Kubes, two.ID)
	})
	now := time.Now()
	k := &keeper{store: w.store, etcd: w.etcd, own: func() []admin.CertEnd { return nil }, log: w.log, now: func() time.Time { return now }}
	pass := func(at time.Time) {
		t.Helper()
		now = at
		if err := k.dropPods(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	there := func(n *identity.Node) bool {
		_, err := w.store.Entries.Get(t.Context(), mesh.EntryID(n.Identity().ID))
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	ends := left.Leaf().NotAfter // the last of them
	pass(stays.Leaf().NotAfter.Add(-time.Minute))
	for _, n := range []*identity.Node{stays, gone, revoked, left, plain} {
		if !there(n) {
			t.Errorf("%s was forgotten before its certificate had ended", n.Identity().Node())
		}
	}
	if err := k.nodeEnds(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, e := range call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventCertExpiring}).Items {
		told[e.Object] = true
	}
	if told[gone.Identity().Node()] || !told[stays.Identity().Node()] {
		t.Errorf("told of the ends of %v", told)
	}
	for range 2 { // the second finds nothing to do
		pass(ends.Add(time.Minute))
	}
	for n, want := range map[*identity.Node]bool{stays: true, gone: false, revoked: false, left: false, plain: true} {
		if there(n) != want {
			t.Errorf("%s is there: %v", n.Identity().Node(), !want)
		}
	}
}
