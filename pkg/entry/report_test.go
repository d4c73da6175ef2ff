package entry_test

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// wantRelayed waits until reports have told that n bytes in all were relayed
// through c; told is what the last one said that named it.
func (g *gate) wantRelayed(t *testing.T, c *core, n int64) {
	t.Helper()
	var told int64
	eventually(t, "what was relayed is told", func() bool {
		for _, x := range g.Report().GetRelayed() {
			if x.GetCore() == c.target.ID {
				told = x.GetUp() + x.GetDown()
			}
		}
		return told >= n
	})
	if told != n {
		t.Errorf("%d bytes are told, want %d", told, n)
	}
}

// What is relayed is counted while it passes, not when a connection ends, and told
// anew in all to the next server.
func TestWhatIsRelayedIsCountedByCore(t *testing.T) {
	g, c := withCore(t)
	conn := g.open(t, name)
	both := 2 * int64(len(hello(name))) // the hello there, and back
	g.wantRelayed(t, c, both)
	if r := g.Report(); len(r.GetRelayed()) != 0 || !r.GetCounts() {
		t.Errorf("told again although nothing was relayed: %v", r)
	}
	send(t, conn, []byte("more"))
	wantBack(t, conn, []byte("more"))
	g.wantRelayed(t, c, both+8)
	g.Hello(new(controlpb.Hello)) // of the stream to another server
	g.wantRelayed(t, c, both+8)
}

func TestNamesThatLeadNowhereAreCounted(t *testing.T) {
	g := startEntry(t)
	for _, n := range []mesh.ServerName{"one." + suffix, "two." + suffix, "two." + suffix, "two.example.org"} {
		c := dial(t, g.addr)
		send(t, c, hello(n))
		wantClosed(t, c)
	}
	g.wantEnded(t, entry.NoRoute, 3)
	r := g.Report()
	if r.GetMisses() != 3 || r.GetMissedNames() != 2 {
		t.Errorf("%d misses of %d names, want 3 of 2: a name of no cell is not asked for", r.GetMisses(), r.GetMissedNames())
	}
	g.Unsent(r)
	if r := g.Report(); r.GetMisses() != 3 || r.GetMissedNames() != 2 {
		t.Errorf("after a report was taken back: %d misses of %d names", r.GetMisses(), r.GetMissedNames())
	}
	if r := g.Report(); r.GetMisses() != 0 || r.GetMissedNames() != 0 {
		t.Errorf("then %d misses of %d names", r.GetMisses(), r.GetMissedNames())
	}
}

// A core that fell silent is asked again without a client, so that management
// hears of it, and its fault is told in a word.
func TestASilentCoreIsAskedAgainWithoutClients(t *testing.T) {
	g := startEntry(t, func(s *entry.Server) { s.Recheck = 20 * time.Millisecond })
	first, second := startCore(t, g.ca, nil), startCore(t, g.ca, nil)
	gone := first.target
	first.kill()
	g.route.put(mesh.Route{Name: name}, gone, second.target)
	g.open(t, name).Close()
	told := map[string]*controlpb.DialResult{}
	failed := int64(0)
	eventually(t, "the core is asked without a client", func() bool {
		for _, d := range g.Report().GetDials() {
			told[d.GetCore()] = d
			if d.GetCore() == gone.ID {
				failed += d.GetFailed()
			}
		}
		return failed >= 3
	})
	if f := told[gone.ID].GetFault(); f != string(mesh.FaultRefused) {
		t.Errorf("the fault is %q, want %q", f, mesh.FaultRefused)
	}
	id, err := mesh.ParseIdentity(gone.Identity)
	if err != nil {
		t.Fatal(err)
	}
	back := startCoreAs(t, g.ca, id, nil)
	g.TargetChanged(back.target, false)
	eventually(t, "the core answers again", func() bool {
		for _, d := range g.Report().GetDials() {
			if d.GetCore() == gone.ID && d.GetSucceeded() > 0 {
				return true
			}
		}
		return false
	})
	if n := len(back.seen()); n != 0 {
		t.Errorf("the core saw %d streams, want none", n)
	}
}
