package adminsvc

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestDeviceIsServedWhenItsAnswerArrives(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	var waited mesh.DeviceID
	r.WaitServed = func(ctx context.Context, id mesh.DeviceID) error {
		waited = id
		return r.reconcile(ctx, id)
	}
	d := r.device("alice", "phone", "north")
	if waited != d.ID {
		t.Errorf("waited for %q, want %s", waited, d.ID)
	}
	if !slices.Equal(d.Via, []string{"box"}) || d.Waiting != "" || d.MemberName != "alice" || d.CellName != "north" {
		t.Errorf("got %+v", d)
	}
	if len(d.ServerNames) != 1 || !d.ServerNames[0].Under("a.example.net") {
		t.Errorf("server names %v", d.ServerNames)
	}
	routes := must(r.routeGet(r.ctx(), admin.Ref{Ref: string(d.ServerNames[0])}))(t)
	if len(routes.Items) != 1 || routes.Items[0].Targets[0].ID != string(core.ID) {
		t.Errorf("routes %+v", routes)
	}
}

func TestDeviceSaysWhatItWaitsFor(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.WaitServed = func(ctx context.Context, _ mesh.DeviceID) error { <-ctx.Done(); return ctx.Err() }
	if d := r.device("alice", "phone", "north"); d.Waiting != "no core of cell north was ready yet" || len(d.Via) != 0 {
		t.Errorf("waiting %q via %v", d.Waiting, d.Via)
	}
	r.WaitServed = nil
	core := r.core("box", m.ID, c.ID)
	if d := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t); d.Waiting != "not confirmed yet by box" {
		t.Errorf("waiting %q", d.Waiting)
	}
	must(r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: string(core.ID)}))(t)
	for _, tt := range []struct {
		state mesh.DeviceState
		want  string
	}{{mesh.DeviceSuspended, "the device is suspended"}, {mesh.DeviceActive, "no core of cell north was ready yet"}} {
		if d := must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", State: &tt.state}))(t); d.Waiting != tt.want {
			t.Errorf("waiting %q, want %q", d.Waiting, tt.want)
		}
	}
	must(r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", State: new(mesh.MemberSuspended)}))(t)
	if d := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t); d.Waiting != "member alice is suspended" {
		t.Errorf("waiting %q", d.Waiting)
	}
}

func TestDeviceLinkRevealsTheSecretAndIsAudited(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	c := r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	link := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: "alice/phone"}))(t)
	stored := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
	if !stored.Verifiers.CheckHTTP(d.ID, mesh.Secret(link.Secret)) {
		t.Error("the secret does not fit the verifier")
	}
	if len(link.Secret) < 43 { // 32 bytes in base64url
		t.Errorf("a secret of %d characters", len(link.Secret))
	}
	ca := must(r.cellCAOf(r.ctx(), admin.Ref{Ref: "north"}))(t)
	if link.User != string(d.ID) || link.ServerName != d.ServerNames[0] || link.CA != ca.PEM || ca.Cell != c.ID || ca.PEM == "" ||
		!slices.Equal(link.Entries, []string{"192.0.2.1:443"}) || !link.HiddenHost.Under("a.example.net") {
		t.Errorf("link %+v", link)
	}
	rec := r.audits()[0]
	if rec.Action != "device.link" || rec.Changes[0].Object != "device/"+string(d.ID) {
		t.Errorf("the newest audit record is %+v", rec)
	}
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: string(d.ID)}))(t)
	_, err := r.deviceLinkOf(r.ctx(), admin.Ref{Ref: string(d.ID)})
	refused(t, err, mesh.ErrConflict, "revoked")
}

func TestRoutesGoInTheTransactionOfARefusal(t *testing.T) {
	refusals := map[string]func(r *rig, id string) error{
		"device revoke": func(r *rig, id string) error {
			_, err := r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: id})
			return err
		},
		"device suspend": func(r *rig, id string) error {
			_, err := r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: id, State: new(mesh.DeviceSuspended)})
			return err
		},
		"device remove": func(r *rig, id string) error {
			_, err := r.deviceRemove(r.ctx(), admin.Ref{Ref: id})
			return err
		},
		"member suspend": func(r *rig, _ string) error {
			_, err := r.memberSet(r.ctx(), admin.MemberSetRequest{Ref: "alice", State: new(mesh.MemberSuspended)})
			return err
		},
		"cell retire": func(r *rig, _ string) error {
			_, err := r.cellSet(r.ctx(), admin.CellSetRequest{Ref: "north", State: new(mesh.CellRetired)})
			return err
		},
		"core revoke": func(r *rig, _ string) error {
			_, err := r.coreRevoke(r.ctx(), admin.RevokeRequest{Ref: "box"})
			return err
		},
	}
	for what, do := range refusals {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			m, c := r.member("alice"), r.cell("north", "a.example.net")
			r.core("box", m.ID, c.ID)
			d := r.device("alice", "phone", "north")
			if routes, _, err := r.Store.Routes.List(r.ctx()); err != nil || len(routes) != 1 {
				t.Fatalf("%d routes before (%v), want 1", len(routes), err)
			}
			if err := do(r, string(d.ID)); err != nil {
				t.Fatal(err)
			}
			if routes, _, err := r.Store.Routes.List(r.ctx()); err != nil || len(routes) != 0 {
				t.Errorf("%d routes after (%v), want 0", len(routes), err)
			}
		})
	}
}

// The whole way of a device: its cell is lost and restored, or replaced by another.
func TestWhereADeviceWasServedItStaysForTheOverlap(t *testing.T) {
	r := newRig(t)
	m := r.member("alice")
	home, host, next := r.cell("home", "h.example.net"), r.cell("host", "o.example.net"), r.cell("next", "n.example.net")
	for name, c := range map[string]mesh.CellID{"home1": home.ID, "host1": host.ID, "next1": next.ID} {
		r.core(name, m.ID, c)
	}
	r.WaitServed = r.reconcile
	id := r.device("alice", "phone", "home").ID
	cell := func(req admin.CellSetRequest) {
		t.Helper()
		req.Ref = "home"
		must(r.cellSet(r.ctx(), req))(t)
		if err := r.reconcile(r.ctx(), id); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, hosted string, earlier ...string) {
		t.Helper()
		v := must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t)
		var got []string
		for _, e := range v.Earlier {
			got = append(got, e.CellName)
		}
		routes, _, err := r.Store.Routes.List(r.ctx())
		if err != nil || v.HostName != hosted || !slices.Equal(got, earlier) || len(routes) != len(v.ServerNames) {
			t.Errorf("%s: guest in %q, served on in %v, %d routes (%v)", when, v.HostName, got, len(routes), err)
		}
	}
	cell(admin.CellSetRequest{State: new(mesh.CellCompromised), Fallback: &[]string{"host"}})
	want("compromised", "host")
	f := must(r.cellForecastOf(r.ctx(), admin.CellForecastRequest{Ref: "home", State: mesh.CellActive}))(t)
	if f.Returning != 1 || f.Stranded != 0 {
		t.Errorf("forecast of a restore: %+v", f)
	}
	cell(admin.CellSetRequest{State: new(mesh.CellActive), Fallback: &[]string{}})
	want("restored", "", "host")
	f = must(r.cellForecastOf(r.ctx(), admin.CellForecastRequest{Ref: "home", State: mesh.CellCompromised}))(t)
	if f.Stranded != 1 || len(f.Hosts) != 0 {
		t.Errorf("forecast without a fallback: %+v", f)
	}
	cell(admin.CellSetRequest{State: new(mesh.CellCompromised), Fallback: &[]string{"host"}})
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", Cell: new("next")}))(t)
	want("moved", "", "home", "host")
	cell(admin.CellSetRequest{State: new(mesh.CellRetired)})
	want("the old cell is retired", "", "host")
	must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", State: new(mesh.DeviceSuspended)}))(t)
	if routes, _, err := r.Store.Routes.List(r.ctx()); err != nil || len(routes) != 0 {
		t.Errorf("suspended: %d routes (%v)", len(routes), err)
	}
}

func TestDeviceFollowsItsCoreIntoTheCell(t *testing.T) {
	r := newRig(t)
	m, north, south := r.member("alice"), r.cell("north", "a.example.net"), r.cell("south", "b.example.net")
	r.core("box", m.ID, north.ID)
	there := r.core("hut", m.ID, south.ID)
	d := r.device("alice", "phone", "north")
	d = must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Core: new("hut")}))(t)
	if d.Cell != south.ID || d.Core != there.ID || !slices.Equal(d.Via, []string{"hut"}) || !d.ServerNames[1].Under("b.example.net") {
		t.Errorf("moved to %+v", d)
	}
	if len(d.Earlier) != 1 || d.Earlier[0].Cell != north.ID || d.Earlier[0].CellName != "north" || !d.ServerNames[0].Under("a.example.net") {
		t.Errorf("served on in %+v", d.Earlier)
	}
	routes := must(r.routeGet(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t).Items
	if len(routes) != 2 || !routes[0].Earlier || !routes[0].Until.Equal(d.Earlier[0].Until) || routes[1].Earlier || !routes[1].Until.IsZero() {
		t.Errorf("routes %+v, want the old one for the overlap and the new one", routes)
	}
	r.Now = func() time.Time { return time.Now().Add(mesh.DefaultLabelOverlap) }
	if v := must(r.deviceGet(r.ctx(), admin.Ref{Ref: string(d.ID)}))(t); len(v.Earlier) != 0 || len(v.ServerNames) != 1 {
		t.Errorf("after the overlap: %+v", v)
	}
	r.Now = nil
	d = must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Cell: new("north")}))(t)
	if d.Core != "" || d.CellName != "north" {
		t.Errorf("moved to %+v", d)
	}
}

func TestBadDevicesAreRefused(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	r.device("alice", "phone", "north")
	past := time.Now().Add(-time.Hour)
	add := func(req admin.DeviceAddRequest) error { _, err := r.deviceAdd(r.ctx(), req); return err }
	set := func(req admin.DeviceSetRequest) error { _, err := r.deviceSet(r.ctx(), req); return err }
	for _, c := range []struct {
		name string
		err  error
		kind error
		says string
	}{
		{"the name is taken within the member", add(admin.DeviceAddRequest{Member: "alice", Name: "phone", Cell: "north"}), mesh.ErrExists, "phone"},
		{"no such member", add(admin.DeviceAddRequest{Member: "alic", Name: "x", Cell: "north"}), mesh.ErrNotFound, "alice"},
		{"neither cell nor core", add(admin.DeviceAddRequest{Member: "alice", Name: "x"}), mesh.ErrInvalid, "--cell"},
		{"both cell and core", add(admin.DeviceAddRequest{Member: "alice", Name: "x", Cell: "north", Core: "box"}), mesh.ErrInvalid, "either"},
		{"no such core", add(admin.DeviceAddRequest{Member: "alice", Name: "x", Core: "bo"}), mesh.ErrNotFound, "box"},
		{"expires in the past", add(admin.DeviceAddRequest{Member: "alice", Name: "x", Cell: "north", Limits: mesh.Limits{Expires: past}}), mesh.ErrInvalid, "past"},
		{"negative traffic", add(admin.DeviceAddRequest{Member: "alice", Name: "x", Cell: "north", Limits: mesh.Limits{Traffic: -1}}), mesh.ErrInvalid, "traffic"},
		{"negative connections", set(admin.DeviceSetRequest{Ref: "phone", Connections: new(-1)}), mesh.ErrInvalid, "connections"},
		{"set to the past", set(admin.DeviceSetRequest{Ref: "phone", Expires: &past}), mesh.ErrInvalid, "past"},
		{"revoked by set", set(admin.DeviceSetRequest{Ref: "phone", State: new(mesh.DeviceRevoked)}), mesh.ErrInvalid, "revoke"},
		{"unknown state", set(admin.DeviceSetRequest{Ref: "phone", State: new(mesh.DeviceState("on"))}), mesh.ErrInvalid, "active"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.err, c.kind, c.says) })
	}
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: "phone"}))(t)
	refused(t, set(admin.DeviceSetRequest{Ref: "phone", State: new(mesh.DeviceActive)}), mesh.ErrConflict, "final")
}

func TestExpiredDeviceCanBeRenamedAndExtended(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.cell("north", "a.example.net")
	soon := time.Now().Add(time.Hour).UTC()
	d := must(r.deviceAdd(r.ctx(), admin.DeviceAddRequest{Member: "alice", Name: "phone", Cell: "north", Limits: mesh.Limits{Expires: soon}}))(t)
	r.Now = func() time.Time { return soon.Add(time.Hour) }
	d = must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Name: new("tablet"), Connections: new(3)}))(t)
	if d.Waiting == "" || d.Name != "tablet" || d.Limits.Connections != 3 {
		t.Errorf("got %+v", d)
	}
	d = must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: string(d.ID), Expires: &time.Time{}}))(t)
	if !d.Limits.Expires.IsZero() {
		t.Errorf("still expires at %v", d.Limits.Expires)
	}
}
