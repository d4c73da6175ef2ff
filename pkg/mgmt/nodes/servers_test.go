package nodes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// term is how long a dead server keeps its office in these tests.
const term = 4 * time.Second // with less, a busy machine loses it now and then

// server is one of several servers of a mesh, with its own way to etcd.
type server struct {
	*network
	link *storetest.Link
}

// newServers returns servers of one mesh; the first leads.
func newServers(t *testing.T, number int, times Settings) []*server {
	t.Helper()
	etcd := storetest.Etcd(t)
	var all []*server
	for range number {
		link := storetest.NewLink(t, etcd)
		st, err := store.Open(context.Background(), store.Config{Endpoints: []string{"http://" + link.Addr()}, DataKey: storetest.DataKey, Term: term})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		if len(all) == 0 {
			all = append(all, &server{newNetworkOn(t, st, times, loopback...), link})
			eventually(t, "the first leads", func() bool { return all[0].leads() })
			continue
		}
		first := all[0]
		n := &network{t: t, ids: first.ids, store: st, server: first.ids.Node(t, mesh.RoleMgmt), member: first.member, cell: first.cell}
		n.start(times)
		all = append(all, &server{n, link})
	}
	return all
}

func (n *network) leads() bool {
	who, err := n.store.Leader(context.Background(), office)
	return err == nil && string(who) == n.server.Identity().ID
}

// kill ends a server without a word to anybody: etcd and the nodes only notice
// what ends by itself.
func (s *server) kill() {
	s.link.Cut()
	s.stop()
}

// endLease does what time does with the lease of a dead server.
func (n *network) endLease(f *fake) {
	n.t.Helper()
	resp, err := n.store.Client().Get(n.t.Context(), "/mesh/v1/alive/"+f.id.Node())
	if err != nil || len(resp.Kvs) != 1 {
		n.t.Fatalf("lease of %s: %v, %v", f.id.Node(), resp, err)
	}
	if _, err := n.store.Client().Revoke(n.t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		n.t.Fatal(err)
	}
}

// at makes the node dial that server from now on, as a later stream of its own.
func (f *fake) at(s *server) *fake {
	f.n = s.network
	f.hello.Boot++
	return f
}

// The leader is killed: another goes on with routes within seconds.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	all := newServers(t, 3, quick())
	f := all[1].readyCore("c")
	before := all[1].addDevice("before")
	eventually(t, "served", func() bool { return len(all[1].via(before)) == 1 })
	all[0].kill()
	began := time.Now()
	after := all[2].addDevice("after")
	eventually(t, "the leader's work is done by another", func() bool { return len(all[1].via(after)) == 1 })
	took := time.Since(began)
	t.Logf("taken over in %v, of which the lease is %v", took, term)
	if all[1].leads() == all[2].leads() {
		t.Error("not exactly one of the others leads")
	}
	all[2].waitServed(after)
	if c := all[1].core(f); c.State != mesh.CoreReady || len(all[1].events(mesh.EventCoreReady, f.id.Node())) != 1 {
		t.Errorf("core %+v", c)
	}
}

// D-03, D-04: the leader hangs and comes back. Meanwhile another led, and what
// the first had begun does not count.
func TestLeaderPaused(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lost = 4 * time.Second
	all := newServers(t, 2, times)
	gone, stays := all[1].readyCore("gone"), all[1].readyCore("stays")
	all[0].link.Freeze()
	all[1].svc.hub.get(gone.id.Node()).end(fmt.Errorf("test: %w", mesh.ErrUnavailable))
	eventually(t, "the other leads", func() bool { return all[1].leads() })
	all[1].wantState(gone, mesh.CoreLost)
	all[0].link.Heal()
	d := all[1].addDevice("phone")
	all[1].waitServed(d)
	eventually(t, "the first knows", func() bool { return all[0].svc.WaitServed(t.Context(), d.ID) == nil })
	if all[0].leads() || all[0].core(stays).State != mesh.CoreReady || len(all[0].events(mesh.EventCoreLost, gone.id.Node())) != 1 {
		t.Errorf("stays %+v, gone %+v", all[0].core(stays), all[0].core(gone))
	}
}

// A node goes from server to server. The stream it left behind is ended there
// though its end never came, and nobody hears of a core lost or ready again.
func TestNodeMovesBetweenServers(t *testing.T) {
	t.Parallel()
	all := newServers(t, 2, quick())
	f := all[0].addCore("c")
	f.relay(f.node)
	last := f.greet()
	f.live(last, nil)
	all[0].wantState(f, mesh.CoreReady)
	d := all[0].addDevice("phone")
	all[0].waitServed(d)
	for i := range 4 {
		to := all[(i+1)%2]
		f.hello.MeshEpoch, f.hello.DevicesRevision = 1, all[0].status(f).DevicesRev
		l := f.at(to).greet()
		// Its table may come again: a server that built it a moment after the one
		// that the node holds cannot know that they say the same.
		f.live(l, nil)
		last.wantOver()
		// "a later stream", or "a later start", whichever server notices first.
		if last.end == nil || status.Code(last.end) != codes.FailedPrecondition || !strings.Contains(last.end.Error(), "a later st") {
			t.Errorf("it ended with %v", last.end)
		}
		last = l
		eventually(t, "the status says where", func() bool {
			st := to.status(f)
			return st.Connected && string(st.Server) == to.server.Identity().ID && st.DevicesRev >= f.hello.DevicesRevision
		})
		eventually(t, "dialled from there", func() bool { return to.svc.hub.get(f.id.Node()).dialled().ok })
	}
	if c := all[0].core(f); c.State != mesh.CoreReady || len(all[0].via(d)) != 1 {
		t.Errorf("core %+v, via %v", c, all[0].via(d))
	}
	for _, typ := range []mesh.EventType{mesh.EventCoreLost, mesh.EventCoreUnreachable, mesh.EventDuplicateNode} {
		if e := all[0].events(typ, f.id.Node()); len(e) != 0 {
			t.Errorf("events %+v", e)
		}
	}
	if e := all[0].events(mesh.EventCoreReady, f.id.Node()); len(e) != 1 {
		t.Errorf("%d ready events", len(e))
	}
}

// wantOver waits for the end of a stream that somebody else reads.
func (l *line) wantOver() {
	l.t.Helper()
	select {
	case <-l.ended:
	case <-time.After(patient):
		l.t.Fatal("the stream does not end")
	}
}

// A node that was away when somebody was revoked hears of it from whichever
// server it comes to.
func TestRevokedWhileAway(t *testing.T) {
	t.Parallel()
	all := newServers(t, 2, quick())
	f, victim := all[0].addEntry("e"), all[0].addEntry("victim")
	l := f.greet()
	first := until(l, (*controlpb.MgmtMessage).GetRevocations)
	l.hangUp()
	rec := all[1].revoke(victim)
	f.hello.MeshEpoch, f.hello.RevocationsRevision = 1, first.GetRevision()
	for _, s := range all {
		eventually(t, "in force", func() bool { return s.svc.Revocations.Check(identity.Peer{Identity: victim.id}) != nil })
		l := f.at(s).greet()
		m := until(l, (*controlpb.MgmtMessage).GetRevocations)
		if len(m.GetRecords()) != 1 || string(m.GetRecords()[0].GetPayload()) != string(rec.Payload) {
			t.Errorf("sent %v", m)
		}
		l.hangUp()
	}
}

// H-03: the network drops every packet without a word. Both ends notice, and
// the node goes to another server, before anybody takes it for lost.
func TestABlackHoleIsNoticedAtBothEnds(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Ping = time.Second
	all := newServers(t, 2, times)
	f := all[0].addCore("c")
	hole := storetest.NewLink(t, all[0].addr)
	home := all[0].runCoreAt(f, times.Ping, hole.Addr(), "127.0.0.1:1")
	all[0].wantState(f, mesh.CoreReady)
	if err := home.State.SetAddresses([]string{hole.Addr(), all[1].addr}); err != nil {
		t.Fatal(err)
	}
	hole.Freeze()
	began := time.Now()
	eventually(t, "the node is at the other server", func() bool { return len(all[1].svc.Connected()) == 1 })
	t.Logf("the node moved after %v, pings are %v apart", time.Since(began), times.Ping)
	eventually(t, "the first server noticed", func() bool { return len(all[0].svc.Connected()) == 0 })
	t.Logf("the server noticed after %v", time.Since(began))
	eventually(t, "the status says where", func() bool {
		st := all[0].status(f)
		return st.Connected && string(st.Server) == all[1].server.Identity().ID
	})
	if c := all[0].core(f); c.State != mesh.CoreReady || len(all[0].events(mesh.EventCoreLost, f.id.Node())) != 0 {
		t.Errorf("core %+v", c)
	}
}

// A core that gets a table from a server that lags behind would lose devices.
func TestAServerThatLagsSendsNoOlderTable(t *testing.T) {
	t.Parallel()
	old := &table{rev: 10, need: 10, devices: devices("a")}
	o := newOutbox(&controlpb.Hello{MeshEpoch: 1, DevicesRevision: 20}, 1)
	if got := drain(t, &o, want{table: old, asOf: 15}); len(got) != 0 {
		t.Errorf("sent %v, as of 15, to a node that has 20", got)
	}
	next := old.next(21, 18, devices("a", "b"))
	if got := drain(t, &o, want{table: next, asOf: 21}); len(got) != 1 || got[0] != "devices 21 all +2 -0 more false" {
		t.Errorf("sent %v", got)
	}
	// Nothing has changed since 10, so what another server sent as of 20 is it.
	o = newOutbox(&controlpb.Hello{MeshEpoch: 1, DevicesRevision: 20}, 1)
	if got := drain(t, &o, want{table: old, asOf: 20}); len(got) != 0 || o.acked.devices != 20 {
		t.Errorf("sent %v, believed %d", got, o.acked.devices)
	}
	if got := drain(t, &o, want{table: next, asOf: 21}); len(got) != 1 || got[0] != "devices 21 from 20 +1 -0 more false" {
		t.Errorf("sent %v, want what is new since 20", got)
	}
}

// Two nodes with one identity at two servers: the first stays, whoever asks
// first, and people are told.
func TestDuplicatesAtTwoServers(t *testing.T) {
	t.Parallel()
	all := newServers(t, 2, quick())
	f := all[0].addEntry("e")
	f.live(f.greet(), nil)
	eventually(t, "the other server knows", func() bool {
		st, _ := all[1].svc.view.status.Get(f.id.Node())
		return st.Connected
	})
	twin := all[1].fake(f.id)
	twin.node = f.node
	twin.hello.Instance, twin.hello.Boot = "two", 9
	l := twin.sayHello()
	l.wantEnd(codes.FailedPrecondition, "another node with this identity is connected from 127.0.0.1")
	if e := all[0].wantEvent(mesh.EventDuplicateNode, f.id.Node()); e.Severity != mesh.Critical || e.Advice == "" {
		t.Errorf("event %+v", e)
	}
	twin.hello.Instance, twin.hello.Boot = "one", 0
	twin.sayHello().wantEnd(codes.FailedPrecondition, "a later start of this node")
	if len(all[0].svc.Connected()) != 1 || len(all[1].svc.Connected()) != 0 {
		t.Error("the first was not left alone")
	}
}

// At the same moment neither server knows of the other's node: what is written
// first counts.
func TestDuplicatesAtTheSameMoment(t *testing.T) {
	t.Parallel()
	all := newServers(t, 2, quick())
	f := all[0].addEntry("e")
	twin := all[1].fake(f.id)
	twin.node, twin.hello.Instance = f.node, "two"
	eventually(t, "both know the entry", func() bool {
		_, ok := all[1].svc.view.entries.Get(mesh.EntryID(f.id.ID))
		return ok
	})
	var wg sync.WaitGroup
	lines := make([]*line, 2)
	for i, x := range []*fake{f, twin} {
		wg.Go(func() {
			lines[i] = x.sayHello()
			x.live(lines[i], nil)
		})
	}
	wg.Wait()
	eventually(t, "one stays", func() bool { return len(all[0].svc.Connected())+len(all[1].svc.Connected()) == 1 })
	all[0].wantEvent(mesh.EventDuplicateNode, f.id.Node())
	// The second may have come only after there was one.
	eventually(t, "one stays", func() bool { return len(all[0].svc.Connected())+len(all[1].svc.Connected()) == 1 })
	never(t, "that one ends too", func() bool { return len(all[0].svc.Connected())+len(all[1].svc.Connected()) != 1 })
}

// A server dies with its nodes: those that come to another in time were never
// lost, the others are, and no status says for long that they are connected.
func TestAServerDiesWithItsNodes(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lost, times.Pass = 6*time.Second, time.Hour // nothing waits for a full pass
	all := newServers(t, 2, times)
	dies := all[1]
	comes, stays := dies.readyCore("comes"), dies.readyCore("stays")
	eventually(t, "written", func() bool { return dies.status(comes).Connected && dies.status(stays).Connected })
	dies.kill()
	all[0].endLease(stays)
	began := time.Now()
	comes.live(comes.at(all[0]).greet(), nil)
	eventually(t, "not connected", func() bool { return !all[0].status(stays).Connected })
	t.Logf("status mended after %v", time.Since(began))
	all[0].wantState(stays, mesh.CoreLost)
	t.Logf("lost after %v", time.Since(began))
	if c := all[0].core(comes); c.State != mesh.CoreReady || len(all[0].events(mesh.EventCoreLost, comes.id.Node())) != 0 {
		t.Errorf("core %+v", c)
	}
}

// A server that is cut off from the others keeps its nodes' streams, but the
// others cannot see that. It sends the nodes to them, once, in time.
func TestAServerThatIsCutOffSendsItsNodesAway(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lease, times.Lost = 2*time.Second, 3*time.Second
	all := newServers(t, 2, times)
	all[0].change(func(tx *store.Tx) error {
		return store.Update(tx, all[0].store.Config, store.ConfigKey, func(c *mesh.Config) error {
			c.MgmtAddresses = []string{"127.0.0.1:1", "127.0.0.1:2"}
			return nil
		})
	})
	cut := all[1]
	eventually(t, "it knows that there are others", func() bool { return len(cut.svc.config().MgmtAddresses) == 2 })
	f := cut.addEntry("e")
	l := f.greet()
	cut.link.Cut()
	if g := until(l, (*controlpb.MgmtMessage).GetGoodbye); !strings.Contains(g.GetReason(), "lost contact") {
		t.Errorf("goodbye %v", g)
	}
	back := f.greet() // found no other
	f.live(back, nil)
	never(t, "sent away again", func() bool { return len(cut.svc.Connected()) != 1 })
	cut.link.Heal()
	eventually(t, "written", func() bool { return cut.status(f).Connected })
}
