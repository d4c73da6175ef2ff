package core

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

func table(t *testing.T) *devices {
	t.Helper()
	return openDevices(filepath.Join(t.TempDir(), "devices.json"), 100, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func TestTablesFollowTheirRevisions(t *testing.T) {
	a, b, c := newClient(), newClient(), newClient()
	bad := &controlpb.Device{Id: "device-x"}
	up := func(cs ...client) (out []*controlpb.Device) {
		for _, c := range cs {
			out = append(out, c.Device)
		}
		return out
	}
	steps := []struct {
		name     string
		m        *controlpb.Devices
		want     error
		revision int64
		devices  int
	}{
		{"a delta without its base", &controlpb.Devices{Base: 4, Revision: 5, Upserts: up(a)}, errBase, 0, 0},
		{"a part of a snapshot", &controlpb.Devices{Snapshot: true, Revision: 10, More: true, Upserts: up(a)}, errPart, 0, 0},
		{"a part of a newer one drops it", &controlpb.Devices{Snapshot: true, Revision: 11, More: true, Upserts: up(b)}, errPart, 0, 0},
		{"the last part", &controlpb.Devices{Snapshot: true, Revision: 11, Upserts: up(c)}, nil, 11, 2},
		{"a delta that fits", &controlpb.Devices{Base: 11, Revision: 12, Upserts: up(a), Removes: []string{b.Id}}, nil, 12, 2},
		{"the same again", &controlpb.Devices{Base: 11, Revision: 12, Upserts: up(a)}, errBase, 12, 2},
		{"one bad device refuses all", &controlpb.Devices{Base: 12, Revision: 13, Upserts: append(up(b), bad), Removes: []string{a.Id}}, mesh.ErrInvalid, 12, 2},
		{"a bad removal", &controlpb.Devices{Base: 12, Revision: 13, Removes: []string{"../../x"}}, mesh.ErrInvalid, 12, 2},
		{"a delta in parts", &controlpb.Devices{Base: 12, Revision: 13, More: true}, mesh.ErrInvalid, 12, 2},
		{"no revision", &controlpb.Devices{Snapshot: true}, mesh.ErrInvalid, 12, 2},
		{"an empty snapshot", &controlpb.Devices{Snapshot: true, Revision: 20}, nil, 20, 0},
	}
	tb := table(t)
	for _, s := range steps {
		if err := tb.apply(s.m); !errors.Is(err, s.want) {
			t.Errorf("%s: %v", s.name, err)
		}
		if n, _ := tb.count(); tb.held() != s.revision || n != s.devices {
			t.Errorf("%s: revision %d, %d devices", s.name, tb.held(), n)
		}
	}
}

func TestAStreamThatEndsForgetsHalfASnapshot(t *testing.T) {
	tb := table(t)
	a, b := newClient(), newClient()
	_ = tb.apply(&controlpb.Devices{Snapshot: true, Revision: 10, More: true, Upserts: []*controlpb.Device{a.Device}})
	tb.restart()
	if err := tb.apply(&controlpb.Devices{Snapshot: true, Revision: 10, Upserts: []*controlpb.Device{b.Device}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := tb.get(mesh.DeviceID(a.Id)); ok {
		t.Error("a part of another stream came in")
	}
}

// A core that restarts while management is away serves whom it served.
func TestTheTableSurvivesRestart(t *testing.T) {
	tb := table(t)
	c := newClient(func(d *controlpb.Device) {
		d.MaxConnections, d.MaxTraffic, d.ExpiresUnixNanos = 2, 3, time.Now().Add(time.Hour).UnixNano()
	})
	for rev := int64(1); rev < 3; rev++ {
		if err := errors.Join(tb.apply(&controlpb.Devices{Snapshot: true, Revision: rev, Upserts: []*controlpb.Device{c.Device}}), tb.save()); err != nil {
			t.Fatal(err)
		}
	}
	fi, err := os.Stat(tb.path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	text, err := os.ReadFile(tb.path)
	if err != nil || strings.Contains(string(text), c.secret.Reveal()) {
		t.Error("the file holds the secret itself")
	}
	again := openDevices(tb.path, 100, slog.New(slog.DiscardHandler))
	got, ok := again.get(mesh.DeviceID(c.Id))
	want, _ := tb.get(mesh.DeviceID(c.Id))
	if !ok || again.held() != 2 || !got.Limits.Expires.Equal(want.Limits.Expires) || got.Limits.Traffic != 3 || got.Verifiers != want.Verifiers {
		t.Errorf("revision %d, %+v", again.held(), got)
	}
	if err := os.WriteFile(tb.path, make([]byte, 50), 0o600); err != nil {
		t.Fatal(err)
	}
	if older := openDevices(tb.path, 100, slog.New(slog.DiscardHandler)); older.held() != 1 {
		t.Errorf("after damage: revision %d", older.held())
	}
}

// opened admits one stream of c and returns why it was cut, if it was.
func opened(t *testing.T, tb *devices, c client) (context.Context, *lease) {
	t.Helper()
	ctx, l, no := tb.admit(t.Context(), mesh.DeviceID(c.Id), mesh.ServerName(c.name()), time.Now())
	if no != nil {
		t.Fatalf("refused: %+v", no)
	}
	l.shown.Store(true)
	return ctx, l
}

func TestWhatADeviceMayNoLongerIsCut(t *testing.T) {
	tests := []struct {
		name   string
		change func(*controlpb.Device)
		cut    bool
	}{
		{"nothing changes", func(*controlpb.Device) {}, false},
		{"a name is added", func(d *controlpb.Device) { d.ServerNames = append(d.ServerNames, "new."+suffix) }, false},
		{"a limit changes", func(d *controlpb.Device) { d.MaxConnections = 1 }, false},
		{"its name is taken away", func(d *controlpb.Device) { d.ServerNames = []string{"new." + suffix} }, true},
		{"its secret changes", func(d *controlpb.Device) { d.HttpVerifier = "other" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tb, c := table(t), newClient()
			apply(t, tb, c)
			ctx, l := opened(t, tb, c)
			defer tb.release(l)
			tt.change(c.Device)
			apply(t, tb, c)
			if (ctx.Err() != nil) != tt.cut {
				t.Errorf("cut: %v", context.Cause(ctx))
			}
			if r, ok := errors.AsType[*relay.ResetError](context.Cause(ctx)); tt.cut && (!ok || r.Code != relay.CodeRevoked) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
		})
	}
}

func apply(t *testing.T, tb *devices, cs ...client) {
	t.Helper()
	m := &controlpb.Devices{Snapshot: true, Revision: tb.held() + 1}
	for _, c := range cs {
		m.Upserts = append(m.Upserts, c.Device)
	}
	if err := tb.apply(m); err != nil {
		t.Fatal(err)
	}
}

// Counters are reported once, also those of streams that are still open, of
// devices that are gone, and of reports that came back.
func TestUsageIsReportedOnce(t *testing.T) {
	tb, c := table(t), newClient()
	apply(t, tb, c)
	sum := func() (out usage) {
		used, _ := tb.take()
		for _, u := range used {
			out.add(usage{u.GetUp(), u.GetDown(), u.GetConnections()})
		}
		return out
	}
	_, l := opened(t, tb, c)
	l.meter.Up.Add(10)
	if got := sum(); got != (usage{10, 0, 1}) {
		t.Errorf("while open: %v", got)
	}
	l.meter.Up.Add(5)
	l.meter.Down.Add(7)
	apply(t, tb) // the device is removed
	tb.release(l)
	list, metered := tb.take()
	if got := sum(); got != (usage{}) {
		t.Errorf("twice: %v", got)
	}
	tb.unsent(list, metered)
	if got := sum(); got != (usage{5, 7, 0}) {
		t.Errorf("after it came back: %v", got)
	}
	if got := tb.totals(); got != (usage{15, 7, 0}) {
		t.Errorf("totals %v", got)
	}
}

// What a core counted since it started is told again to the next server, since
// the one before may not have written it, and never less than before.
func TestWhatWasUsedSinceTheStartIsToldToEachServer(t *testing.T) {
	tb, a, b := table(t), newClient(), newClient()
	apply(t, tb, a, b)
	told := func() map[string]int64 {
		out := map[string]int64{}
		_, metered := tb.take()
		for _, u := range metered {
			out[u.GetDevice()] = u.GetUp()
		}
		return out
	}
	is := func(want map[string]int64) {
		t.Helper()
		if got := told(); !maps.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	}
	_, l := opened(t, tb, a)
	l.meter.Up.Add(10)
	tb.release(l)
	is(map[string]int64{a.Id: 10})
	is(map[string]int64{})
	_, l = opened(t, tb, b)
	l.meter.Up.Add(1)
	tb.release(l)
	is(map[string]int64{b.Id: 1})
	tb.restart()
	is(map[string]int64{a.Id: 10, b.Id: 1})
	apply(t, tb, b) // a is gone, and what it used is not
	tb.restart()
	used, metered := tb.take()
	tb.unsent(used, metered)
	is(map[string]int64{a.Id: 10, b.Id: 1})
}

// What a client moves counts from its first byte once it has shown credentials,
// and not for the device if it never does.
func TestStrangersUseUpNoTraffic(t *testing.T) {
	tb, c := table(t), newClient(func(d *controlpb.Device) { d.MaxTraffic = 100 })
	apply(t, tb, c)
	ctx, stranger := opened(t, tb, c)
	stranger.shown.Store(false)
	_, client := opened(t, tb, c)
	client.shown.Store(false)
	stranger.meter.Down.Add(1000)
	client.meter.Up.Add(10)
	tb.sweep(time.Now())
	if ctx.Err() != nil {
		t.Errorf("cut: %v", context.Cause(ctx))
	}
	client.shown.Store(true)
	tb.release(client)
	tb.release(stranger)
	used, _ := tb.take()
	if len(used) != 1 || used[0].GetUp() != 10 || used[0].GetDown() != 0 || tb.totals() != (usage{10, 1000, 0}) {
		t.Errorf("used %v, totals %v", used, tb.totals())
	}
}

func TestUsedUpTrafficEndsWhatIsOpen(t *testing.T) {
	tb, c := table(t), newClient(func(d *controlpb.Device) { d.MaxTraffic = 100 })
	apply(t, tb, c)
	ctx, l := opened(t, tb, c)
	defer tb.release(l)
	l.meter.Down.Add(99)
	tb.sweep(time.Now())
	if ctx.Err() != nil {
		t.Error("cut too early")
	}
	l.meter.Up.Add(1)
	tb.sweep(time.Now())
	if r, ok := errors.AsType[*relay.ResetError](context.Cause(ctx)); !ok || r.Code != relay.CodeLimit {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}
