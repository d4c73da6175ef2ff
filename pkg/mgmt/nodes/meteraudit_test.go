package nodes

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestDrift(t *testing.T) {
	const gb = 1 << 30
	for _, tt := range []struct {
		name             string
		metered, relayed int64
		want             bool
	}{
		{"nothing was moved", 0, 0, false},
		{"the same", 10 * gb, 10 * gb, false},
		{"a fifth more, as moments differ", 12 * gb, 10 * gb, false},
		{"much more", 20 * gb, 10 * gb, true},
		{"of nothing", gb, 0, true},
		{"a little more of little", 200 << 20, 0, false},
		{"some less, as strangers are not counted", 6 * gb, 10 * gb, false},
		{"much less", 2 * gb, 10 * gb, true},
		{"nothing of much", 0, 10 * gb, true},
		{"a sum that fell says nothing", -gb, 10 * gb, false},
	} {
		before := mesh.MeterPair{Metered: 5 * gb, Relayed: 7 * gb}
		got := drift(before, mesh.MeterPair{Metered: before.Metered + tt.metered, Relayed: before.Relayed + tt.relayed})
		if (got != "") != tt.want {
			t.Errorf("%s: %q, want told: %v", tt.name, got, tt.want)
		}
	}
}

func TestWhatAnEntryRelayedAddsUp(t *testing.T) {
	by := func(meter string, start, n int64) *relayedBy {
		return &relayedBy{meter, start, map[mesh.CoreID]int64{"c": n}}
	}
	var e mesh.EntryRelayed
	for _, step := range []struct {
		name string
		by   *relayedBy
		want int64
	}{
		{"the first report", by("a-1", 1, 100), 100},
		{"the same again", by("a-1", 1, 100), 100},
		{"an earlier one, late", by("a-1", 1, 60), 100},
		{"more", by("a-1", 1, 150), 150},
		{"the entry started again", by("a-7", 7, 10), 160},
		{"a server that wrote late of the start before", by("a-1", 1, 155), 160},
		{"more of the present start", by("a-7", 7, 30), 180},
	} {
		raise(&e, step.by)
		if got := relayedSums(nil, map[mesh.EntryID]mesh.EntryRelayed{"e": e})["c"]; got != step.want {
			t.Errorf("%s: %d bytes, want %d", step.name, got, step.want)
		}
	}
}

func TestNamesThatAreGuessed(t *testing.T) {
	begin := time.Now()
	var p probing
	for i := range 100 { // a device whose name has ended asks all the time
		if _, tell := p.add(20, 1, begin.Add(time.Duration(i)*30*time.Second)); tell {
			t.Fatalf("told after %d reports of one name", i)
		}
	}
	p = probing{}
	for i := range 4 {
		told, tell := p.add(15, 15, begin.Add(time.Duration(i)*time.Minute))
		if tell != (i == 3) || tell && (told.names != 60 || told.misses != 60) {
			t.Errorf("report %d: told %v, %+v", i, tell, told)
		}
	}
	if _, tell := p.add(-5, 1000, begin); tell {
		t.Error("told of a report that says nothing")
	}
}

// relays are counts as an entry tells them.
func (l *line) relays(core string, bytes int64) {
	l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{
		State: "ready", Counts: true, Relayed: []*controlpb.CoreTraffic{{Core: core, Up: bytes / 2, Down: bytes - bytes/2}}}}})
}

// What a core counts and what entries relayed through it is compared each hour, by
// whichever server leads; entries that go leave what they relayed.
func TestMetersAreCompared(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Meter, times.Pass = 50*time.Millisecond, time.Hour
	n := newNetwork(t, times, loopback...)
	eventually(t, "the leader has compared what there is", func() bool {
		_, err := n.store.MeterAudit.Get(t.Context(), store.MeterAuditKey)
		return err == nil
	})
	core := n.readyCore("c")
	c := mesh.CoreID(core.id.ID)
	e, l := n.entryLine("e")
	w := newWatcher(&leader{s: n.svc})
	hour, begin := 0, time.Now()
	compare := func(metered int64) {
		t.Helper()
		hour++
		if err := w.audit(t.Context(), map[mesh.CoreID]mesh.Traffic{c: {Down: metered}}, begin.Add(time.Duration(hour)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	tells := func(l *line, id string, total int64) {
		t.Helper()
		l.relays(core.id.ID, total)
		eventually(t, "what was relayed is noted", func() bool {
			it, err := n.store.Relayed.Get(t.Context(), mesh.EntryID(id))
			return err == nil && it.Value.Now[c] == total
		})
	}
	const gb = 1 << 30
	tells(l, e.id.ID, 5*gb)
	compare(100 * gb) // the first time there is nothing to compare with
	tells(l, e.id.ID, 15*gb)
	compare(110 * gb)
	if got := n.events(mesh.EventMeterDrift, core.id.Node()); len(got) != 0 {
		t.Fatalf("told of a core that counts what was relayed: %+v", got)
	}
	n.change(func(tx *store.Tx) error { return store.Delete(tx, n.store.Entries, mesh.EntryID(e.id.ID)) })
	eventually(t, "the entry is gone", func() bool { _, ok := n.svc.view.entries.Get(mesh.EntryID(e.id.ID)); return !ok })
	compare(110 * gb)
	f, m := n.entryLine("f")
	tells(m, f.id.ID, 4*gb)
	compare(114 * gb)
	if got := n.events(mesh.EventMeterDrift, core.id.Node()); len(got) != 0 {
		t.Fatalf("told when an entry was replaced: %+v", got)
	}
	if _, err := n.store.Relayed.Get(t.Context(), mesh.EntryID(e.id.ID)); err == nil {
		t.Error("what an entry relayed that is gone is kept for itself")
	}
	tells(m, f.id.ID, 5*gb)
	compare(134 * gb)
	if got := n.events(mesh.EventMeterDrift, core.id.Node()); len(got) != 1 ||
		got[0].Cause != "in 1h0m0s it says that it moved 21474836480 bytes, and entries relayed 1073741824 bytes through it" {
		t.Errorf("events %+v", got)
	}
}

// An entry of an earlier version tells no counts, and then nothing is compared.
func TestMetersAreNotComparedWithoutCounts(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	core := n.readyCore("c")
	e, _ := n.entryLine("e")
	eventually(t, "the entry is connected", func() bool { st, _ := n.svc.view.status.Get(e.id.Node()); return st.Connected })
	w := newWatcher(&leader{s: n.svc})
	for i := range 2 {
		moved := map[mesh.CoreID]mesh.Traffic{mesh.CoreID(core.id.ID): {Down: int64(i) << 40}}
		if err := w.audit(t.Context(), moved, time.Now().Add(time.Duration(i+1)*2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.events(mesh.EventMeterDrift, core.id.Node()); len(got) != 0 {
		t.Errorf("told: %+v", got)
	}
}

// A cell's usual traffic is noted each hour, told when it is missing, and told when
// it is back.
func TestACellThatNobodyUsesAnyMore(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Pass, times.Unreachable = time.Hour, time.Hour // the passes are the test's: the leader waits
	n := newNetwork(t, times, loopback...)
	core := n.readyCore("c")
	n.addDevice("laptop")
	eventually(t, "the device is known", func() bool { return len(n.svc.view.devices.All()) == 1 })
	w := newWatcher(&leader{s: n.svc})
	moved, now := int64(0), time.Now().Truncate(time.Hour).Add(time.Minute)
	look := func(step time.Duration, more int64) {
		t.Helper()
		moved += more
		now = now.Add(step)
		if err := w.look(t.Context(), map[mesh.CoreID]mesh.Traffic{mesh.CoreID(core.id.ID): {Up: moved}}, now); err != nil {
			t.Fatal(err)
		}
	}
	judge := func() {
		t.Helper()
		if _, err := w.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 * 24 {
		look(time.Hour, 600*mb)
	}
	judge()
	object := mesh.ObjectCell + string(n.cell.ID)
	if got := n.events(mesh.EventCellUnreachable, object); len(got) != 0 {
		t.Fatalf("told of a cell that is used: %+v", got)
	}
	for range 5 {
		look(10*time.Minute, 0)
	}
	judge()
	n.wantEvent(mesh.EventCellUnreachable, object)
	eventually(t, "the watch is mirrored", func() bool { _, ok := n.svc.view.cellWatch.Get(n.cell.ID); return ok })
	for range 4 {
		look(10*time.Minute, 100*mb)
	}
	judge()
	if e := n.wantEvent(mesh.EventCellReachable, object); e.Cause != "there is traffic again" {
		t.Errorf("event %+v", e)
	}
}

func TestGuessedNamesAreToldOf(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	e, l := n.entryLine("e")
	l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{Misses: 70, MissedNames: 60}}})
	if ev := n.wantEvent(mesh.EventRouteProbing, e.id.Node()); ev.Cause != "clients asked 70 times for 60 names that lead nowhere, within 1m0s" {
		t.Errorf("event %+v", ev)
	}
}
