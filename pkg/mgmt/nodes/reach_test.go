package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func result(core string, ok, failed int64, fault mesh.DialFault) *controlpb.DialResult {
	return &controlpb.DialResult{Core: core, Succeeded: ok, Failed: failed, Fault: string(fault)}
}

func TestHowConnectionsThroughAnEntryGo(t *testing.T) {
	begin := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	cells := func(id mesh.CoreID) (mesh.CellID, bool) { return mesh.CellID(id[:1]), id != "x1" }
	type report struct {
		at   int
		with []*controlpb.DialResult
	}
	for _, tt := range []struct {
		name    string
		reports []report
		now     int
		want    map[mesh.CellID]mesh.Reach
	}{
		{"nothing was tried", nil, 0, map[mesh.CellID]mesh.Reach{}},
		{"a core answers", []report{{0, []*controlpb.DialResult{result("a1", 2, 0, "")}}}, 10,
			map[mesh.CellID]mesh.Reach{"a": {Since: at(0), Cores: 1}}},
		{"one of two answers", []report{{0, []*controlpb.DialResult{result("a1", 0, 3, "timeout"), result("a2", 1, 0, "")}}}, 10,
			map[mesh.CellID]mesh.Reach{"a": {Since: at(0), Cores: 2}}},
		{"some attempts work", []report{{0, []*controlpb.DialResult{result("a1", 1, 9, "timeout")}}}, 10,
			map[mesh.CellID]mesh.Reach{"a": {Since: at(0), Cores: 1}}},
		{"none answers, since the last fell silent", []report{
			{0, []*controlpb.DialResult{result("a1", 0, 1, "refused"), result("a2", 1, 0, "")}},
			{30, []*controlpb.DialResult{result("a1", 0, 1, "refused"), result("a2", 0, 1, "timeout")}},
			{60, []*controlpb.DialResult{result("a1", 0, 1, "refused"), result("a2", 0, 1, "timeout")}}}, 70,
			map[mesh.CellID]mesh.Reach{"a": {Fails: true, Since: at(30), Fault: mesh.FaultTimeout, Cores: 2}}},
		{"a core that was not tried of late does not count", []report{
			{0, []*controlpb.DialResult{result("a1", 1, 0, "")}},
			{580, []*controlpb.DialResult{result("a2", 0, 1, "reset")}}}, 610,
			map[mesh.CellID]mesh.Reach{"a": {Fails: true, Since: at(580), Fault: mesh.FaultReset, Cores: 1}}},
		{"after ten quiet minutes nothing is known", []report{{0, []*controlpb.DialResult{result("a1", 0, 1, "reset")}}}, 600, map[mesh.CellID]mesh.Reach{}},
		{"cells are told apart, and a fault of a later version is another", []report{
			{0, []*controlpb.DialResult{result("a1", 1, 0, ""), result("b1", 0, 1, "eaten")}}}, 10,
			map[mesh.CellID]mesh.Reach{"a": {Since: at(0), Cores: 1}, "b": {Fails: true, Since: at(0), Fault: mesh.FaultOther, Cores: 1}}},
		{"cores that are not of the mesh, and numbers that are none", []report{
			{0, []*controlpb.DialResult{result("x1", 1, 0, ""), result("a1", 0, 0, ""), result("a2", -1, -1, "")}}}, 10, map[mesh.CellID]mesh.Reach{}},
	} {
		d := dials{}
		for _, r := range tt.reports {
			d.note(r.with, func(id mesh.CoreID) bool { return id != "x1" }, at(r.at))
		}
		got, _ := d.judge(cells, 10*time.Minute, at(tt.now))
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s:\n got %v\nwant %v", tt.name, got, tt.want)
		}
	}
}

func TestWhenACellIsOutOfReach(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	fails := func(name string, secs int) entryView {
		return entryView{name: name, Reach: mesh.Reach{Fails: true, Since: now.Add(-time.Duration(secs) * time.Second), Fault: mesh.FaultTimeout}}
	}
	reaches := entryView{name: "well", Reach: mesh.Reach{Since: now.Add(-time.Hour)}}
	cores := phoning{all: 2, answered: 1}
	for _, tt := range []struct {
		name  string
		p     phoning
		views []entryView
		was   bool
		want  bool
		again time.Duration // from now; 0: none
	}{
		{"nobody tried", cores, nil, false, false, 0},
		{"all reach it", cores, []entryView{reaches, reaches}, false, false, 0},
		{"the only one that tried does not", cores, []entryView{fails("e", 60)}, false, true, 0},
		{"half do not", cores, []entryView{fails("e", 90), reaches}, false, true, 0},
		{"one of three does not", cores, []entryView{fails("e", 90), reaches, reaches}, false, false, 0},
		{"not for long enough", cores, []entryView{fails("e", 59), fails("f", 10)}, false, false, time.Second},
		{"one for long enough, which is half", cores, []entryView{fails("e", 61), fails("f", 10)}, false, true, 50 * time.Second},
		{"its cores are away too", phoning{}, []entryView{fails("e", 90)}, false, false, 0},
		{"it was so, and half fail still, if anew", cores, []entryView{fails("e", 5), reaches}, true, true, 0},
		{"it was so, and most reach it again", cores, []entryView{fails("e", 500), reaches, reaches}, true, false, 0},
	} {
		evidence, again := reachVerdict(tt.p, tt.views, tt.was, time.Minute, now)
		var want time.Time
		if tt.again > 0 {
			want = now.Add(tt.again)
		}
		if (evidence != "") != tt.want || !again.Equal(want) {
			t.Errorf("%s: %q, again %v; want %v, again %v", tt.name, evidence, again, tt.want, want)
		}
	}
}

func TestTheEvidenceOfACellOutOfReach(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	var views []entryView
	for i := range 7 {
		views = append(views, entryView{name: fmt.Sprint("e", i), alone: i == 6,
			Reach: mesh.Reach{Fails: true, Since: now.Add(-time.Duration(60+i) * time.Second), Fault: mesh.FaultRefused}})
	}
	got, _ := reachVerdict(phoning{all: 3, answered: 2}, views, false, time.Minute, now)
	want := "7 of 7 entries that tried reach none of its cores, of which 3 phone home and 2 answer management: " +
		"e6 since 2026-11-30T07:58:54Z (refused), which reaches no other cell either; "
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("got %s", got)
	}
}

func (l *line) dials(results ...*controlpb.DialResult) {
	l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Report{Report: &controlpb.Report{State: "ready", Dials: results}}})
}

// entryLine is an entry with its stream.
func (n *network) entryLine(name string) (*fake, *line) {
	n.t.Helper()
	f := n.addEntry(name)
	l := f.greet()
	f.live(l, nil)
	return f, l
}

func watchTimes() Settings {
	times := quick()
	times.Unreachable = 300 * time.Millisecond
	return times
}

// A cell whose core phones home and answers management, but not entries, is told
// of with the evidence, and that it can be reached again too; both once.
func TestACellThatEntriesCannotReach(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, watchTimes(), loopback...)
	core := n.readyCore("c")
	_, one := n.entryLine("one")
	_, two := n.entryLine("two")
	_, three := n.entryLine("three")
	object := mesh.ObjectCell + string(n.cell.ID)

	one.dials(result(core.id.ID, 4, 0, ""))
	three.dials(result(core.id.ID, 2, 0, ""))
	eventually(t, "the leader knows what they say", func() bool { return len(n.svc.viewsOf(n.cell.ID)) == 2 })
	two.dials(result(core.id.ID, 0, 4, mesh.FaultTimeout))
	n.wantReach(map[string]bool{"one": false, "two": true, "three": false})
	one.dials(result(core.id.ID, 0, 1, mesh.FaultReset))
	e := n.wantEvent(mesh.EventCellUnreachable, object)
	if e.Severity != mesh.Critical || !strings.Contains(e.Cause, "2 of 3 entries") || !strings.Contains(e.Cause, "(reset)") || e.Advice == "" {
		t.Errorf("event %+v", e)
	}
	one.dials(result(core.id.ID, 1, 0, ""))
	n.wantEvent(mesh.EventCellReachable, object)
	if _, err := n.store.CellWatch.Get(t.Context(), n.cell.ID); err == nil {
		t.Error("the evidence is still noted")
	}
	if down, up := n.events(mesh.EventCellUnreachable, object), n.events(mesh.EventCellReachable, object); len(down) != 1 || len(up) != 1 {
		t.Errorf("told %d and %d times", len(down), len(up))
	}
}

// wantReach waits until it is noted of each entry whether it fails to reach the cell.
func (n *network) wantReach(want map[string]bool) {
	n.t.Helper()
	eventually(n.t, "what entries reach is noted", func() bool {
		got := map[string]bool{}
		all, _, err := n.store.Reach.List(n.t.Context())
		if err != nil {
			return false
		}
		for id, r := range all {
			e, err := n.store.Entries.Get(n.t.Context(), id)
			if v, ok := r.Cells[n.cell.ID]; ok && err == nil {
				got[e.Value.Name] = v.Fails
			}
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// The next leader neither tells again nor forgets what the one before found, and a
// cell that is taken out of use is no longer watched.
func TestAWatchOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, watchTimes(), loopback...)
	core := n.readyCore("c")
	e, l := n.entryLine("e")
	object := mesh.ObjectCell + string(n.cell.ID)
	l.dials(result(core.id.ID, 0, 4, mesh.FaultTimeout))
	n.wantEvent(mesh.EventCellUnreachable, object)

	n.stop()
	n.start(watchTimes())
	for _, f := range []*fake{core, e} {
		f.hello.Boot++
		f.live(f.greet(), nil)
	}
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.State = mesh.CellCompromised })
	up := n.wantEvent(mesh.EventCellReachable, object)
	if down := n.events(mesh.EventCellUnreachable, object); len(down) != 1 || up.Cause != "the cell is no longer in use" {
		t.Errorf("told %d times, then %+v", len(down), up)
	}
}

// Judgements are written when they change, not with each report.
func TestReportsThatSayTheSameAreNotWritten(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, watchTimes(), loopback...)
	core := n.readyCore("c")
	_, l := n.entryLine("e")
	l.dials(result(core.id.ID, 4, 0, ""))
	n.wantReach(map[string]bool{"e": false})
	_, after, err := n.store.Reach.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l.dials(result(core.id.ID, 1, 1, mesh.FaultReset))
	}
	l.dials(result(core.id.ID, 0, 1, mesh.FaultReset)) // the last one, and another judgement
	writes := 0
	for ev, err := range n.store.Reach.Watch(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		if writes++; ev.Value.Cells[n.cell.ID].Fails {
			break
		}
	}
	if writes != 1 {
		t.Errorf("%d writes, want one, of the report that says something else", writes)
	}
}
