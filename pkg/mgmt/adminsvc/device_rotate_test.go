package adminsvc

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestReplacedLabelWorksForTheOverlap(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	r.core("box", m.ID, c.ID)
	before := r.device("alice", "phone", "north")
	start := time.Now()
	v := must(r.deviceRotate(r.ctx(), admin.DeviceRotateRequest{Ref: "phone", Label: true, Overlap: new(mesh.Duration(time.Hour))}))(t)
	if len(v.ServerNames) != 2 || v.ServerNames[0] != before.ServerNames[0] || v.Replaced.Sub(start).Round(time.Minute) != time.Hour {
		t.Fatalf("names %v until %v", v.ServerNames, v.Replaced)
	}
	routes := must(r.routeGet(r.ctx(), admin.Ref{Ref: "phone"}))(t).Items
	if len(routes) != 2 || routes[0].Until.IsZero() || !routes[1].Until.IsZero() {
		t.Errorf("routes %+v", routes)
	}
	if link := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: "phone"}))(t); link.ServerName != v.ServerNames[1] {
		t.Errorf("the link says %s, want the new name", link.ServerName)
	}
	now := must(r.deviceRotate(r.ctx(), admin.DeviceRotateRequest{Ref: "phone", Label: true, Overlap: new(mesh.Duration(0))}))(t)
	if len(now.ServerNames) != 1 || slices.Contains(v.ServerNames, now.ServerNames[0]) || !now.Replaced.IsZero() {
		t.Errorf("without overlap %v until %v", now.ServerNames, now.Replaced)
	}
	if routes, _, err := r.Store.Routes.List(r.ctx()); err != nil || len(routes) != 1 {
		t.Errorf("%d routes are left (%v), want 1", len(routes), err)
	}
	r.configure(`{"labels":{"overlap":"48h"}}`)
	late := must(r.deviceRotate(r.ctx(), admin.DeviceRotateRequest{Ref: "phone", Label: true}))(t)
	if late.Replaced.Sub(start).Round(time.Minute) != 48*time.Hour {
		t.Errorf("the overlap of the configuration ends at %v", late.Replaced)
	}
}

func TestReplacedSecretEndsAtOnce(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.cell("north", "a.example.net")
	d := r.device("alice", "phone", "north")
	old := mesh.Secret(must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: "phone"}))(t).Secret)
	v := must(r.deviceRotate(r.ctx(), admin.DeviceRotateRequest{Ref: "phone", Secret: true}))(t)
	link := must(r.deviceLinkOf(r.ctx(), admin.Ref{Ref: "phone"}))(t)
	stored := must(r.Store.Devices.Get(r.ctx(), d.ID))(t).Value
	if stored.Verifiers.CheckHTTP(d.ID, old) || stored.Verifiers.CheckVLESS(d.ID, old.UserID(d.ID)) || stored.Verifiers.CheckTrojan(d.ID, old.TrojanKey()) {
		t.Error("the old secret still opens something")
	}
	now := mesh.Secret(link.Secret)
	if !stored.Verifiers.CheckHTTP(d.ID, now) || !stored.Verifiers.CheckVLESS(d.ID, now.UserID(d.ID)) || !stored.Verifiers.CheckTrojan(d.ID, now.TrojanKey()) {
		t.Error("the new secret does not open everything")
	}
	if len(v.ServerNames) != 1 || v.ServerNames[0] != d.ServerNames[0] {
		t.Errorf("names %v, want the same", v.ServerNames)
	}
}

func TestBadRotationsAreRefused(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.cell("north", "a.example.net")
	r.device("alice", "phone", "north")
	rotate := func(req admin.DeviceRotateRequest) error { _, err := r.deviceRotate(r.ctx(), req); return err }
	refused(t, rotate(admin.DeviceRotateRequest{Ref: "phone"}), mesh.ErrInvalid, "label or the secret")
	refused(t, rotate(admin.DeviceRotateRequest{Ref: "phone", Label: true, Overlap: new(mesh.Duration(-1))}), mesh.ErrInvalid, "overlap")
	refused(t, rotate(admin.DeviceRotateRequest{Ref: "phone", Label: true, Overlap: new(mesh.Duration(maxOverlap + 1))}), mesh.ErrInvalid, "overlap")
	refused(t, rotate(admin.DeviceRotateRequest{Ref: "phon", Label: true}), mesh.ErrNotFound, "phone")
	must(r.deviceRevoke(r.ctx(), admin.RevokeRequest{Ref: "phone"}))(t)
	refused(t, rotate(admin.DeviceRotateRequest{Ref: "phone", Secret: true}), mesh.ErrConflict, "revoked")
}

func TestTrafficThatIsUsedUpIsCountedAnew(t *testing.T) {
	r := newRig(t)
	m, c := r.member("alice"), r.cell("north", "a.example.net")
	core := r.core("box", m.ID, c.ID)
	d := r.device("alice", "phone", "north")
	moved := func(meter string, up, down int64) {
		hour := mesh.HourOf(time.Now())
		r.write("meter", func(tx *store.Tx) error {
			return store.Create(tx, r.Store.Hours, store.MeterID(hour, core.ID, meter, 0), mesh.MeterHour{
				Hour: hour, Core: core.ID, Meter: meter, Devices: map[mesh.DeviceID]mesh.Traffic{d.ID: {Up: up, Down: down, Connections: 1}},
			})
		})
	}
	moved("first", 100, 400)
	v := must(r.deviceSet(r.ctx(), admin.DeviceSetRequest{Ref: "phone", Traffic: new(int64(500))}))(t)
	if v.Standing != mesh.StandingExhausted || v.Counted != 500 || v.Waiting != "its traffic is used up" {
		t.Errorf("standing %s, counted %d, waiting %q", v.Standing, v.Counted, v.Waiting)
	}
	v = must(r.deviceResetTraffic(r.ctx(), admin.Ref{Ref: "phone"}))(t)
	if v.Standing != mesh.StandingOK || v.Counted != 0 || v.Used.Down != 400 || v.Reset.IsZero() {
		t.Errorf("after the reset: %+v", v)
	}
	if a := r.audits()[0]; a.Action != "device.reset-traffic" {
		t.Errorf("audit says %s", a.Action)
	}
	moved("second", 0, 7)
	if v = must(r.deviceGet(r.ctx(), admin.Ref{Ref: "phone"}))(t); v.Counted != 7 {
		t.Errorf("counted %d, want 7", v.Counted)
	}
}

func TestMemberIsShownWithItsDevices(t *testing.T) {
	r := newRig(t)
	r.member("alice")
	r.member("bob")
	r.cell("north", "a.example.net")
	for _, name := range []string{"tablet", "phone"} {
		r.device("alice", name, "north")
	}
	r.device("bob", "laptop", "north")
	v := must(r.memberGet(r.ctx(), admin.Ref{Ref: "alice"}))(t)
	if len(v.DeviceList) != 2 || v.DeviceList[0].Name != "phone" || v.DeviceList[1].Name != "tablet" || v.Devices != 2 {
		t.Errorf("got %+v", v)
	}
	for _, m := range must(r.memberList(r.ctx(), admin.Page{}))(t).Items {
		if m.DeviceList != nil {
			t.Errorf("the list shows devices of %s", m.Name)
		}
	}
}
