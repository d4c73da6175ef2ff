package mgmt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The intermediate of a server that was removed is believed only as long as
// somebody depends on it.
func TestTheIntermediateOfARemovedServerIsRevoked(t *testing.T) {
	w := getWorld(t)
	stolen := mesh.Server{ID: mesh.NewServerID(), Name: unique("stolen"), State: mesh.ServerMember}
	root, err := ca.NewRoot(w.keys.Mesh, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	inter, err := root.Intermediate(stolen.ID, newKey(t).Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	present, refused := w.node(t, mesh.RoleCore), w.node(t, mesh.RoleEntry)
	serial := 0
	issue := func(node string, issuer mesh.ServerID, ago time.Duration) {
		t.Helper()
		serial++
		rec := mesh.CertRecord{Serial: fmt.Sprintf("77%d%d", time.Now().UnixNano(), serial), Node: node, Issuer: string(issuer),
			Issued: time.Now().Add(-ago), NotAfter: time.Now().Add(200*24*time.Hour - ago)}
		if err := w.store.PutCert(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	issue(present.Identity().Node(), stolen.ID, 5*time.Hour)
	issue(refused.Identity().Node(), stolen.ID, 5*time.Hour)
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: refused.Identity().ID})
	state := func(s mesh.ServerState) {
		t.Helper()
		_, err := w.store.Change(t.Context(), store.By{Actor: "system:test"}, "test", func(tx *store.Tx) error {
			stolen.State = s
			if _, err := store.Get(tx, w.store.Servers, stolen.ID); err == nil {
				return store.Update(tx, w.store.Servers, stolen.ID, func(x *mesh.Server) error { *x = stolen; return nil })
			}
			return errors.Join(store.Create(tx, w.store.Servers, stolen.ID, stolen),
				store.Create(tx, w.store.CA, blobIssuer(stolen.ID), store.Blob{Data: ca.MarshalCert(inter)}))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	k := &keeper{store: w.store, etcd: w.etcd, own: w.certificates, sign: w.authority.SignRevocation, log: w.log, now: time.Now}
	revoked := func() bool {
		t.Helper()
		if err := k.retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		revs, _, err := w.store.Revocations.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range revs {
			if r.Record.Serial == inter.SerialNumber.String() {
				if _, err := identity.VerifyRevocation(w.self.node.Roots(), r); err != nil || r.Record.Until.Before(inter.NotAfter) {
					t.Errorf("record %+v, %v", r.Record, err)
				}
				return true
			}
		}
		return false
	}

	state(mesh.ServerMember)
	if revoked() {
		t.Fatal("the intermediate of a member is revoked")
	}
	state(mesh.ServerRemoved)
	for range 2 { // passes: the second must not judge otherwise
		if revoked() {
			t.Fatal("it is revoked while a node lives on it")
		}
	}
	told := call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventServerRemoved}).Items
	told = slices.DeleteFunc(told, func(e mesh.Event) bool { return e.Object != "server/"+string(stolen.ID) })
	if len(told) != 1 || !strings.Contains(told[0].Cause, present.Identity().Node()) || strings.Contains(told[0].Cause, refused.Identity().Node()) {
		t.Errorf("told %+v", told)
	}
	issue(present.Identity().Node(), w.keys.Server, time.Minute)
	if revoked() {
		t.Fatal("it is revoked before the node can have its next certificate for certain")
	}
	// Without a word from the node, after a while; here it says what it holds.
	certs, _, err := w.store.Certs.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := dependents(certs, nil, nil, stolen.ID, time.Now().Add(settledAfter)); slices.Contains(left, present.Identity().Node()) {
		t.Errorf("after %v it still waits for %v", settledAfter, left)
	}
	_, err = w.store.Update(t.Context(), func(tx *store.Tx) error {
		return store.Create(tx, w.store.Status, present.Identity().Node(), mesh.NodeStatus{Node: present.Identity().Node(), Certificate: lastOf(certs)[present.Identity().Node()].Serial})
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !revoked() {
			t.Fatal("it is not revoked though nobody lives on it")
		}
	}
}
