package adminsvc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestNothingIsRemovedThatSomethingDependsOn(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	other := must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: "south", Suffix: "b.example.net", Fallback: []string{"north"}}))(t)
	core := r.core("box", m.ID, c.ID)
	d := must(r.deviceAdd(r.ctx(), admin.DeviceAddRequest{Member: "alice", Name: "phone", Core: "box"}))(t)
	token := must(r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleCore, Member: "alice", Cell: "north"}))(t)

	member := func() error { _, err := r.memberRemove(r.ctx(), admin.Ref{Ref: "alice"}); return err }
	cell := func() error { _, err := r.cellRemove(r.ctx(), admin.Ref{Ref: "north"}); return err }
	coreRm := func() error { _, err := r.coreRemove(r.ctx(), admin.Ref{Ref: "box"}); return err }

	refused(t, member(), mesh.ErrConflict, "1 device and 1 core")
	refused(t, cell(), mesh.ErrConflict, "1 core and 1 device")
	refused(t, coreRm(), mesh.ErrConflict, "admin core revoke "+string(core.ID))
	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box"}))(t)
	refused(t, coreRm(), mesh.ErrConflict, "--cell "+string(c.ID))
	must(r.deviceRemove(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	must(r.coreRemove(r.ctx(), admin.Ref{Ref: "box"}))(t)
	refused(t, member(), mesh.ErrConflict, "token revoke "+string(token.ID))
	refused(t, cell(), mesh.ErrConflict, "fallback of south")
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: string(other.ID), Fallback: new([]string{})}))(t)
	refused(t, cell(), mesh.ErrConflict, "token revoke "+string(token.ID))
	must(r.tokenRevoke(r.ctx(), admin.Ref{Ref: string(token.ID)}))(t)
	if err := member(); err != nil {
		t.Error(err)
	}
	if err := cell(); err != nil {
		t.Error(err)
	}
	if targets, _, err := r.Store.Targets.List(r.ctx()); err != nil || len(targets) != 0 {
		t.Errorf("%d targets are left (%v)", len(targets), err)
	}
	r.member("alice") // the name is free again
}

func TestStatesThatAreFinal(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	must(r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", State: new(mesh.MemberArchived)}))(t)
	_, err := r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", State: new(mesh.MemberActive)})
	refused(t, err, mesh.ErrConflict, "final")
	_, err = r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", State: new(mesh.MemberState("gone"))})
	refused(t, err, mesh.ErrInvalid, "archived")
	_, err = r.deviceAdd(r.ctx(), admin.DeviceAddRequest{Member: "alice", Name: "phone", Cell: "north"})
	refused(t, err, mesh.ErrConflict, "archived")
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellRetired)}))(t)
	_, err = r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellActive)})
	refused(t, err, mesh.ErrConflict, "final")
	r.member("bob")
	_, err = r.deviceAdd(r.ctx(), admin.DeviceAddRequest{Member: "bob", Name: "phone", Cell: "north"})
	refused(t, err, mesh.ErrConflict, "retired")
	_, err = r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleCore, Member: "bob", Cell: "north"})
	refused(t, err, mesh.ErrConflict, "retired")
	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box"}))(t)
	_, err = r.coreSet(r.ctx(), admin.CoreSetRequest{Ref: "box", Drain: new(true)})
	refused(t, err, mesh.ErrConflict, "final")
}

func TestCellSuffixes(t *testing.T) {
	r := newRig(t)
	c := r.cell("north", "A.Example.NET.")
	if c.Suffix != "a.example.net" || c.Certificate != mesh.CertificatePrivate || c.State != mesh.CellActive {
		t.Errorf("got %+v", c)
	}
	add := func(name, suffix string, cert mesh.CellCertificate, fallback ...string) error {
		_, err := r.cellAdd(r.ctx(), admin.CellAddRequest{Name: name, Suffix: suffix, Certificate: cert, Fallback: fallback})
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		kind error
		says string
	}{
		{"the same suffix in capitals", add("x", "A.EXAMPLE.net", ""), mesh.ErrExists, "a.example.net"},
		{"below another", add("x", "b.a.example.net", ""), mesh.ErrExists, "overlaps"},
		{"above another", add("x", "example.net", ""), mesh.ErrExists, "overlaps"},
		{"an address", add("x", "192.0.2.1", ""), mesh.ErrInvalid, "server name"},
		{"one label", add("x", "local", ""), mesh.ErrInvalid, "two labels"},
		{"a wildcard", add("x", "*.example.org", ""), mesh.ErrInvalid, "labels"},
		{"no room for a label", add("x", strings.Repeat("a.", 120)+"example.org", ""), mesh.ErrInvalid, "room"},
		{"an unknown certificate", add("x", "b.example.net", "self"), mesh.ErrInvalid, "private or public"},
		{"the name is taken", add("north", "b.example.net", ""), mesh.ErrExists, "north"},
		{"an unknown fallback", add("x", "b.example.net", "", "south"), mesh.ErrNotFound, "south"},
		{"a fallback twice", add("x", "b.example.net", "", "north", "north"), mesh.ErrInvalid, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.err, c.kind, c.says) })
	}
	_, err := r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", Fallback: &[]string{"north"}})
	refused(t, err, mesh.ErrInvalid, "own fallback")
	if err := add("public", "c.example.net", mesh.CertificatePublic); err != nil {
		t.Fatal(err)
	}
	_, err = r.cellCAOf(r.ctx(), admin.Ref{Ref: "public"})
	refused(t, err, mesh.ErrNotFound, "public certificate")
}

func TestDrainReachesEntriesAtOnce(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	v := must(r.coreSet(r.ctx(), admin.CoreSetRequest{Ref: "box", Drain: new(true), Name: new("hut")}))(t)
	target := must(r.Store.Targets.Get(r.ctx(), string(core.ID)))(t).Value
	if v.State != mesh.CoreDraining || target.State != mesh.CoreDraining || v.Name != "hut" {
		t.Errorf("core %s %s, target %s, want draining", v.Name, v.State, target.State)
	}
	v = must(r.coreSet(r.ctx(), admin.CoreSetRequest{Ref: "hut", Drain: new(false)}))(t)
	if v.State != mesh.CoreReady || v.Status == nil || v.CertEnds.IsZero() || v.MemberName != "alice" {
		t.Errorf("got %+v", v)
	}
}

func TestRevocationIsOfTheTransactionAndOutlivesTheCertificates(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	entry := mesh.Entry{ID: mesh.NewEntryID(), Name: "gate", Joined: time.Now()}
	person := mesh.Administrator{ID: mesh.NewAdminID(), Name: "bob", Role: mesh.AdminOperator}
	r.write("join", func(tx *store.Tx) error {
		if err := store.Create(tx, r.Store.Admins, person.ID, person); err != nil {
			return err
		}
		return store.Create(tx, r.Store.Entries, entry.ID, entry)
	})
	before := time.Now()
	v := must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box", Reason: "stolen"}))(t)
	if !v.Revoked || v.State != mesh.CoreRevoked {
		t.Errorf("got %+v", v.Core)
	}
	if e := must(r.entryRevoke(r.ctx(), admin.RevokeRequest{Ref: "gate"}))(t); !e.Revoked {
		t.Error("the entry is not revoked")
	}
	if a := must(r.adminRevoke(r.ctx(), admin.RevokeRequest{Ref: "bob"}))(t); !a.Revoked {
		t.Error("the administrator is not revoked")
	}
	revs, _, err := r.Store.Revocations.List(r.ctx())
	if err != nil || len(revs) != 3 {
		t.Fatalf("%d revocations (%v), want 3", len(revs), err)
	}
	for _, rev := range revs {
		rec := rev.Record
		// Also what another server issues at this moment, by a clock that is ahead.
		if !rec.Covers(rec.Node, "1", before) || !rec.Covers(rec.Node, "1", time.Now().Add(time.Minute)) || rec.Until.Before(before.Add(90*24*time.Hour)) || rec.By != "admin:test" {
			t.Errorf("record %+v", rec)
		}
		if rec.Node == "core/"+string(core.ID) && (rec.Reason != "stolen" || rec.Until.Before(before.Add(190*24*time.Hour))) {
			t.Errorf("the core's record %+v does not outlive its certificate", rec)
		}
	}
	certs := must(r.certList(r.ctx(), admin.CertListRequest{Node: "box"}))(t)
	if len(certs.Items) != 1 || !certs.Items[0].Revoked {
		t.Errorf("certificates %+v", certs.Items)
	}
	must(r.certCRL(r.ctx(), admin.None{}))(t)
	if l := r.ca.lists[0]; len(l) != 1 || l[0].Serial != certs.Items[0].Serial {
		t.Errorf("the list has %+v", l)
	}
	_, err = r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box", Reason: strings.Repeat("x", 501)})
	refused(t, err, mesh.ErrInvalid, "reason")
	_, err = r.entryRemove(r.ctx(), admin.Ref{Ref: "gate"})
	if err != nil {
		t.Error(err)
	}
}

func TestCertRevoke(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	cert := func(serial int, node string, issued, end time.Duration) string {
		rec := mesh.CertRecord{Serial: fmt.Sprint(serial), Node: node, Issued: now.Add(issued), NotAfter: now.Add(end)}
		r.write("cert", func(tx *store.Tx) error { return store.Create(tx, r.Store.Certs, rec.Serial, rec) })
		return rec.Serial
	}
	entry, server := "entry/"+string(mesh.NewEntryID()), "mgmt/"+string(mesh.NewServerID())
	first, second := cert(1, entry, -time.Hour, time.Hour), cert(2, entry, -time.Minute, time.Hour)
	old := cert(3, entry, -2*time.Hour, -time.Hour)
	was, is := cert(4, server, -time.Hour, time.Hour), cert(5, server, -time.Minute, time.Hour)
	revoke := func(serial string) (admin.CertView, error) {
		return r.certRevoke(r.ctx(), admin.RevokeRequest{Ref: serial})
	}
	if v := must(revoke(first))(t); !v.Revoked {
		t.Errorf("got %+v", v)
	}
	if v := must(r.certGet(r.ctx(), admin.Ref{Ref: second}))(t); v.Revoked {
		t.Error("the node's other certificate is revoked too")
	}
	must(revoke(was))(t)
	_, err := revoke(is)
	refused(t, err, mesh.ErrConflict, "renewed")
	_, err = revoke(old)
	refused(t, err, mesh.ErrConflict, "ended")
	// An operator does not get rid of an owner that way.
	person := cert(6, "admin/"+string(mesh.NewAdminID()), -time.Minute, time.Hour)
	for serial, what := range map[string]string{person: "an administrator", was: "a management server"} {
		_, err = r.certRevoke(r.as(mesh.AdminOperator), admin.RevokeRequest{Ref: serial})
		refused(t, err, mesh.ErrDenied, "only an owner")
		if v := must(r.certGet(r.ctx(), admin.Ref{Ref: serial}))(t); serial == person && v.Revoked {
			t.Errorf("the certificate of %s is revoked", what)
		}
	}
	must(revoke(person))(t)
	_, err = revoke("99")
	refused(t, err, mesh.ErrNotFound, "99")
	_, err = revoke("0x1f")
	refused(t, err, mesh.ErrInvalid, "decimal")
}
