package adminsvc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// stored is an object as it is stored now, as a backup would hold it.
func (r *rig) stored(object string) json.RawMessage {
	r.t.Helper()
	all, _, err := r.Store.Export(r.t.Context(), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	kind, id, _ := strings.Cut(object, "/")
	for _, o := range all {
		if strings.TrimSuffix(strings.Replace(o.Folder, "entries", "entrys", 1), "s") == kind && o.ID == id {
			return o.Value
		}
	}
	r.t.Fatalf("no %s", object)
	return nil
}

// revert looks first, as the command does, and then does it.
func (r *rig) revert(object string, data json.RawMessage) (admin.BackupReverted, error) {
	req := admin.BackupRevertRequest{Object: object, JSON: data, Commit: "0123456789abcdef0123", Check: true}
	seen, err := r.backupRevert(r.ctx(), req)
	if err != nil {
		return seen, err
	}
	req.Check, req.IfRev = false, seen.Rev
	return r.backupRevert(r.ctx(), req)
}

func TestRevertBringsAMemberBack(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	object := "member/" + string(m.ID)
	then := r.stored(object)
	then = bytes.Replace(then, []byte(`"name"`), []byte(`"ofLater":{"x":1},"name"`), 1) // a newer version wrote it
	must(r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", Name: new("bob"), State: new(mesh.MemberSuspended)}))(t)

	seen := must(r.backupRevert(r.ctx(), admin.BackupRevertRequest{Object: object, JSON: then, Check: true}))(t)
	if seen.Before["name"] != "bob" || seen.After["name"] != "alice" || seen.Same || seen.Rev == 0 {
		t.Errorf("%+v", seen)
	}
	if got := must(r.memberGet(r.ctx(), admin.Ref{Ref: string(m.ID)}))(t); got.Name != "bob" {
		t.Fatal("looking changed it")
	}
	must(r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "bob", Note: new("x")}))(t)
	_, err := r.backupRevert(r.ctx(), admin.BackupRevertRequest{Object: object, JSON: then, IfRev: seen.Rev})
	refused(t, err, mesh.ErrConflict, "look again")

	must(r.revert(object, then))(t)
	if got := must(r.memberGet(r.ctx(), admin.Ref{Ref: "alice"}))(t); got.ID != m.ID || got.State != mesh.MemberActive || got.Note != "" {
		t.Errorf("%+v", got)
	}
	if got := r.stored(object); !bytes.Contains(got, []byte("ofLater")) {
		t.Errorf("a member this program does not know is lost: %s", got)
	}
	if rec := r.audits()[0]; rec.Action != "backup.revert:0123456789ab" || rec.Changes[0].Before["name"] != "bob" || rec.Changes[0].After["name"] != "alice" {
		t.Errorf("audit says %+v", rec)
	}
	if again := must(r.revert(object, then))(t); !again.Same {
		t.Errorf("nothing is left to do, and it says %+v", again)
	}
	r.member("bob") // its name is free
}

func TestRevertBringsARemovedDeviceBack(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	d := r.device("alice", "phone", "north")
	link := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	object := "device/" + string(d.ID)
	then := r.stored(object)
	must(r.deviceRemove(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)

	got := must(r.revert(object, then))(t)
	if got.Before != nil || got.After["name"] != "phone" {
		t.Errorf("%+v", got)
	}
	if again := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t); again.Secret != link.Secret || again.ServerName != link.ServerName {
		t.Error("the client would need another link")
	}
	if err := r.reconcile(r.ctx(), d.ID); err != nil {
		t.Fatal(err)
	}
	if routes, _, err := r.Store.Routes.List(r.ctx()); err != nil || len(routes) != 1 {
		t.Errorf("%d routes (%v), want 1", len(routes), err)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), mesh.SealedPrefix) || strings.Contains(string(text), "verifiers") {
		t.Errorf("secrets are shown (%v): %s", err, text)
	}
}

// To take a move back is a move, and a cell that is reverted to be active is restored.
func TestRevertLeavesWhereADeviceWasServed(t *testing.T) {
	r := newRig(t)
	m, north, south := r.member("alice"), r.cell("north", "a.example.net"), r.cell("south", "b.example.net")
	r.core("box", m.ID, north.ID)
	r.core("hut", m.ID, south.ID)
	d := r.device("alice", "phone", "north")
	device, cell := "device/"+string(d.ID), "cell/"+string(north.ID)
	then, well := r.stored(device), r.stored(cell)
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", Cell: new("south")}))(t)
	must(r.revert(device, then))(t)
	v := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t)
	if v.Cell != north.ID || len(v.Earlier) != 1 || v.Earlier[0].Cell != south.ID {
		t.Errorf("the move is reverted: %+v", v)
	}
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellCompromised), Fallback: &[]string{"south"}}))(t)
	must(r.revert(cell, well))(t)
	if c := must(r.Store.Cells.Get(r.ctx(), north.ID))(t).Value; c.State != mesh.CellActive || len(c.Earlier) != 1 || c.Earlier[0].Cell != south.ID {
		t.Errorf("the loss is reverted: %+v", c)
	}
}

// C-07: no backup undoes a revocation.
func TestRevertDoesNotUnrevoke(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	d := r.device("alice", "phone", "north")
	e := mesh.Entry{ID: mesh.NewEntryID(), Name: "gate", Joined: time.Now()}
	a := mesh.Administrator{ID: mesh.NewAdminID(), Name: "eve", Role: mesh.AdminOwner, Created: time.Now()}
	r.write("join", func(tx *store.Tx) error {
		if err := store.Create(tx, r.Store.Entries, e.ID, e); err != nil {
			return err
		}
		return store.Create(tx, r.Store.Admins, a.ID, a)
	})
	then := map[string]json.RawMessage{}
	for _, object := range []string{"device/" + string(d.ID), "core/" + string(core.ID), "entry/" + string(e.ID), "admin/" + string(a.ID)} {
		then[object] = r.stored(object)
	}
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: string(d.ID)}))(t)
	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box"}))(t)
	must(r.entryRevoke(r.ctx(), admin.RevokeRequest{Ref: "gate"}))(t)
	must(r.adminRevoke(r.ctx(), admin.RevokeRequest{Ref: "eve"}))(t)
	for object, data := range then {
		_, err := r.revert(object, data)
		refused(t, err, mesh.ErrConflict, "revoked since, which is final")
	}
	must(r.deviceRemove(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	_, err := r.revert("device/"+string(d.ID), then["device/"+string(d.ID)])
	refused(t, err, mesh.ErrConflict, "revoked since, which is final")
	bob := r.member("bob")
	object := "member/" + string(bob.ID)
	was := r.stored(object)
	must(r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "bob", State: new(mesh.MemberArchived)}))(t)
	_, err = r.revert(object, was)
	refused(t, err, mesh.ErrConflict, "archived since, which is final")
	must(r.memberRemove(r.ctx(), admin.Ref{Ref: "bob"}))(t)
	_, err = r.revert(object, was)
	refused(t, err, mesh.ErrConflict, "archived since, which is final")
	must(r.entryRemove(r.ctx(), admin.Ref{Ref: "gate"}))(t)
	_, err = r.revert("entry/"+string(e.ID), then["entry/"+string(e.ID)])
	refused(t, err, mesh.ErrNotFound, "join again with a new token")
}

// What a node says of itself is not old again because its name is.
func TestRevertLeavesToNodesWhatIsTheirs(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	object := "core/" + string(core.ID)
	then := r.stored(object)
	must(r.coreSet(r.ctx(), admin.CoreSetRequest{Ref: "box", Name: new("crate"), Drain: new(true)}))(t)
	r.write("core.report", func(tx *store.Tx) error {
		return store.Update(tx, r.Store.Cores, core.ID, func(c *mesh.Core) error { c.Version = "v2"; return nil })
	})
	must(r.revert(object, then))(t)
	got := must(r.coreGet(r.ctx(), admin.Ref{Ref: "box"}))(t)
	if got.Drain || got.State != mesh.CoreReady || got.Version != "v2" {
		t.Errorf("%+v", got.Core)
	}
	target := must(r.Store.Targets.Get(r.ctx(), string(core.ID)))(t)
	if target.Value.State != mesh.CoreReady {
		t.Errorf("entries are told %s", target.Value.State)
	}
}

func TestRevertOfTheConfigurationLeavesTheEpoch(t *testing.T) {
	r := newRig(t)
	then := r.stored("config/mesh")
	then = bytes.Replace(then, []byte(`"epoch":1`), []byte(`"epoch":7`), 1)
	must(r.configSet(r.ctx(), admin.ConfigSetRequest{Patch: []byte(`{"entryAddresses":["198.51.100.9:443"],"staleIfError":"1h"}`)}))(t)
	must(r.revert("config/mesh", then))(t)
	got := must(r.configGet(r.ctx(), admin.None{}))(t)
	if got.Epoch != 1 || got.EntryAddresses[0] != "192.0.2.1:443" || got.StaleIfError != mesh.DefaultConfig().StaleIfError {
		t.Errorf("%+v", got)
	}
}

func TestRevertKeepsOutWhatCannotBeUsed(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	c := r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	device, cell := "device/"+string(d.ID), "cell/"+string(c.ID)
	oldDevice, oldCell := r.stored(device), r.stored(cell)

	for object, says := range map[string]string{"token/x": "cell, config, core", "device/": "KIND/ID", "nothing": "KIND/ID", "cert/1": "is not brought back"} {
		_, err := r.backupRevert(r.ctx(), admin.BackupRevertRequest{Object: object, JSON: oldDevice})
		refused(t, err, mesh.ErrInvalid, says)
	}
	other := "device/" + string(mesh.NewDeviceID())
	_, err := r.revert(other, oldDevice)
	refused(t, err, mesh.ErrConflict, "sealed under a data key") // a secret is bound to its place
	_, err = r.revert(device, json.RawMessage(`{"minReader":99}`))
	refused(t, err, mesh.ErrInvalid, "schema")
	_, err = r.revert(device, bytes.Replace(oldDevice, []byte(`"active"`), []byte(`"undead"`), 1))
	refused(t, err, mesh.ErrInvalid, "undead")
	_, err = r.backupRevert(r.ctx(), admin.BackupRevertRequest{Object: device, JSON: oldDevice, Commit: "HEAD; rm"})
	refused(t, err, mesh.ErrInvalid, "commit")

	must(r.deviceRemove(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	must(r.cellRemove(r.ctx(), admin.Ref{Ref: "north"}))(t)
	_, err = r.revert(device, oldDevice)
	refused(t, err, mesh.ErrConflict, fmt.Sprintf("revert --object cell/%s", c.ID))
	must(r.revert(cell, oldCell))(t)
	must(r.revert(device, oldDevice))(t)

	// A data key that was replaced since opens nothing any more. What is still the
	// same secret was sealed anew, and does not stand in the way.
	keys := r.Store.DataKeys()
	r.Store.SetDataKeys([][32]byte{{1: 1}, keys[0]})
	must(r.Store.Reseal(t.Context(), store.By{Actor: "system:test"}, 100, func(*store.Tx) error { return nil }))(t)
	r.Store.SetDataKeys([][32]byte{{1: 1}})
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Name: new("tablet")}))(t)
	must(r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", Name: new("south")}))(t)
	must(r.revert(cell, oldCell))(t)
	must(r.revert(device, oldDevice))(t)
	must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	must(r.deviceRemove(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t)
	must(r.cellRemove(r.ctx(), admin.Ref{Ref: "north"}))(t)
	_, err = r.revert(device, oldDevice)
	refused(t, err, mesh.ErrConflict, "after the rekey")
	_, err = r.revert(cell, oldCell)
	refused(t, err, mesh.ErrConflict, "after the rekey")
	r.cell("south", "b.example.net")
}
