package bots

import (
	"slices"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestMembersSeeTheirOwnThingsAlone(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.member("alice", alice), w.member("bob", bob), w.cell("c1")
	w.device("phone", a, c, mesh.Limits{})
	theirs := w.device("phone", b, c, mesh.Limits{})
	w.core("hers", a, c)
	w.core("his", b, c)
	v := do(w, admin.BotOwn, w.own, alice, admin.None{})
	if v.Member.ID != a.ID || v.Member.Note != "" || len(v.Devices) != 1 || len(v.Cores) != 1 || v.Cores[0].Name != "hers" || v.Limit != 2 || len(v.Cells) != 1 {
		t.Errorf("she sees %+v", v)
	}
	for _, ref := range []string{string(theirs.ID), "bob/phone", string(b.ID) + "/phone"} {
		_, err := try(w, admin.BotDeviceLink, w.deviceLink, alice, admin.DeviceSubscribeRequest{Ref: ref})
		refused(t, err, mesh.ErrNotFound, "none like that")
		_, err = try(w, admin.BotDeviceRotate, w.deviceRotate, alice, admin.Ref{Ref: ref})
		refused(t, err, mesh.ErrNotFound, "none like that")
	}
	_, err := try(w, admin.BotOwn, w.own, stranger, admin.None{})
	refused(t, err, mesh.ErrDenied, "no member")
}

func TestDevicesWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	a, c, other := w.member("alice", alice), w.cell("c1"), w.cell("c2")
	_, err := try(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "laptop"})
	refused(t, err, mesh.ErrConflict, "nothing in any active cell")
	ends := time.Now().Add(240 * time.Hour).UTC().Truncate(time.Second)
	w.device("phone", a, c, mesh.Limits{Connections: 4, Traffic: 1 << 30, Expires: ends})
	_, err = try(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "laptop", Cell: other.Name})
	refused(t, err, mesh.ErrDenied, "not the member's")
	d := do(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "laptop"})
	if d.Cell != c.ID || d.Limits.Connections != 4 || d.Limits.Traffic != 1<<30 || !d.Limits.Expires.Equal(ends) {
		t.Errorf("it is %+v", d)
	}
	ctx, err := again(w, admin.BotDeviceAdd, alice)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.deviceAdd(ctx, admin.BotDeviceAddRequest{Name: "laptop"})
	refused(t, err, store.ErrDone, "")
	_, err = try(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "third"})
	refused(t, err, mesh.ErrConflict, "has 2, and may have 2")
	set := func(f func(*mesh.Member)) {
		w.write(func(tx *store.Tx) error {
			return store.Update(tx, w.Store.Members, a.ID, func(m *mesh.Member) error { f(m); return nil })
		})
	}
	set(func(m *mesh.Member) { m.DeviceLimit = new(3) })
	do(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "third"})
	set(func(m *mesh.Member) { m.DeviceLimit, m.State = new(9), mesh.MemberSuspended })
	_, err = try(w, admin.BotDeviceAdd, w.deviceAdd, alice, admin.BotDeviceAddRequest{Name: "fourth"})
	refused(t, err, mesh.ErrConflict, "suspended")
	set(func(m *mesh.Member) { m.State = mesh.MemberArchived })
	_, err = try(w, admin.BotOwn, w.own, alice, admin.None{})
	refused(t, err, mesh.ErrDenied, "no member")
}

func TestALostDeviceIsRotated(t *testing.T) {
	w := newWorld(t)
	a, c := w.member("alice", alice), w.cell("c1")
	d := w.device("phone", a, c, mesh.Limits{})
	first := do(w, admin.BotDeviceLink, w.deviceLink, alice, admin.DeviceSubscribeRequest{Ref: "phone"})
	second := do(w, admin.BotDeviceRotate, w.deviceRotate, alice, admin.Ref{Ref: string(d.ID)})
	now, err := w.Store.Devices.Get(t.Context(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if first.URL == second.URL || !second.Replaced || now.Value.Secret == d.Secret || len(now.Value.Names(c.Suffix, time.Now())) != 1 ||
		slices.Equal(now.Value.Names(c.Suffix, time.Now()), d.Names(c.Suffix, time.Now())) {
		t.Errorf("after rotating: %+v, link %v then %v", now.Value, first, second)
	}
	w.settle(func(b *mesh.BotSettings) { b.NoSecrets = true })
	_, err = try(w, admin.BotDeviceLink, w.deviceLink, alice, admin.DeviceSubscribeRequest{Ref: "phone", Replace: true})
	refused(t, err, mesh.ErrDenied, "nothing secret")
}

func TestLimitsAreNoWiderThanTheWidest(t *testing.T) {
	now := time.Now()
	view := func(l mesh.Limits) admin.DeviceView { return admin.DeviceView{Limits: l} }
	got := widest([]admin.DeviceView{
		view(mesh.Limits{Connections: 2, Traffic: 10, Expires: now}),
		view(mesh.Limits{Connections: 5, Traffic: 0, Expires: now.Add(time.Hour)}),
		{State: mesh.DeviceRevoked},
	})
	if want := (mesh.Limits{Connections: 5, Expires: now.Add(time.Hour)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := widest([]admin.DeviceView{view(mesh.Limits{Expires: now}), view(mesh.Limits{}), view(mesh.Limits{Expires: now})}); !got.Expires.IsZero() {
		t.Errorf("got %+v, want no end", got)
	}
}
