package adminsvc

import (
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Who is revoked may join again with a new token, who is banned may not: neither
// with a token that is out, nor with a new one.
func TestBan(t *testing.T) {
	r := newRig(t)
	m, other, c := r.member("alice"), r.member("bob"), r.cell("north", "a.example.net")
	box, second := r.core("box", m.ID, c.ID), r.core("second", other.ID, c.ID)
	token := func(req admin.TokenCreateRequest) (admin.TokenCreated, error) { return r.tokenCreate(r.ctx(), req) }
	forCore := func(owner string) admin.TokenCreateRequest {
		return admin.TokenCreateRequest{Role: mesh.RoleCore, Member: owner, Cell: "north"}
	}
	out, theirs := must(token(forCore("alice")))(t), must(token(forCore("bob")))(t)
	state := func(id mesh.TokenID) mesh.TokenState {
		return must(r.tokenGet(r.ctx(), admin.Ref{Ref: string(id)}))(t).State
	}

	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "second"}))(t)
	if got := state(theirs.ID); got != mesh.TokenUnused {
		t.Errorf("token of the owner of a revoked core: %s", got)
	}
	v := must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box", Ban: true, Reason: "sold"}))(t)
	if !v.Banned || !v.Revoked || state(out.ID) != mesh.TokenRevoked || state(theirs.ID) != mesh.TokenUnused {
		t.Errorf("core %+v, tokens %s and %s", v.Core, state(out.ID), state(theirs.ID))
	}
	revs, _, err := r.Store.Revocations.List(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range revs {
		if want := x.Record.Node == nodeName(mesh.RoleCore, second.ID); x.Record.MayRejoin != want {
			t.Errorf("record %+v: may rejoin, want %v", x.Record, want)
		}
	}
	_, err = token(forCore("alice"))
	refused(t, err, mesh.ErrConflict, "admin core remove "+string(box.ID))
	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box"}))(t) // does not lift it
	_, err = token(forCore("alice"))
	refused(t, err, mesh.ErrConflict, "is banned")
	must(token(forCore("bob")))(t)
	must(r.coreRemove(r.ctx(), admin.Ref{Ref: "box"}))(t)
	must(token(forCore("alice")))(t)
	if all := r.audits(); !slices.ContainsFunc(all, func(a mesh.AuditRecord) bool { return a.Action == "core.ban" }) {
		t.Errorf("audit %+v", all)
	}
}

func TestBanOfEntriesAndAdministrators(t *testing.T) {
	r := newRig(t)
	entryToken := must(r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "gate"}))(t)
	adminToken := must(r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleAdmin, Name: "bob", Grant: mesh.AdminAuditor}))(t)
	e := mesh.Entry{ID: mesh.NewEntryID(), Name: "gate"}
	a := mesh.Administrator{ID: mesh.NewAdminID(), Name: "bob", Role: mesh.AdminOperator}
	r.write("join", func(tx *store.Tx) error {
		if err := store.Create(tx, r.Store.Admins, a.ID, a); err != nil {
			return err
		}
		return store.Create(tx, r.Store.Entries, e.ID, e)
	})
	if v := must(r.adminSet(r.ctx(), admin.AdminSetRequest{Ref: "bob", Suspended: new(true)}))(t); !v.Suspended {
		t.Errorf("administrator %+v", v)
	}
	if v := must(r.entryRevoke(r.ctx(), admin.RevokeRequest{Ref: "gate", Ban: true}))(t); !v.Banned || !v.Revoked {
		t.Errorf("entry %+v", v)
	}
	if v := must(r.adminRevoke(r.ctx(), admin.RevokeRequest{Ref: "bob", Ban: true}))(t); !v.Banned || !v.Revoked {
		t.Errorf("administrator %+v", v)
	}
	for _, id := range []mesh.TokenID{entryToken.ID, adminToken.ID} {
		if v := must(r.tokenGet(r.ctx(), admin.Ref{Ref: string(id)}))(t); v.State != mesh.TokenRevoked {
			t.Errorf("token %+v", v)
		}
	}
	_, err := r.tokenCreate(r.ctx(), admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "gate"})
	refused(t, err, mesh.ErrExists, "taken")
	_, err = r.adminSet(r.ctx(), admin.AdminSetRequest{Ref: "bob", Suspended: new(false)})
	refused(t, err, mesh.ErrConflict, "final")
}
