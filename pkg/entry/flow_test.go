package entry_test

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// lead makes name lead to the cores.
func (g *gate) lead(cores ...*core) {
	targets := make([]mesh.Target, len(cores))
	for i, c := range cores {
		targets[i] = c.target
	}
	g.leadTo(targets...)
}

func (g *gate) leadTo(targets ...mesh.Target) {
	g.route.put(mesh.Route{Name: name, Device: mesh.NewDeviceID()}, targets...)
}

// wantServed makes a connection and says which core it came to.
func (g *gate) wantServed(t testing.TB, by *core) {
	t.Helper()
	before := len(by.seen())
	g.open(t, name)
	if len(by.seen()) != before+1 {
		t.Error("another core served it")
	}
}

// met is a core with which the entry has a session: it has served a client, and
// treats every other as serve says. A core that is still being dialled may be
// overtaken before it was ever asked.
func (g *gate) met(t testing.TB, serve func(*relay.Incoming)) *core {
	t.Helper()
	first := make(chan struct{}, 1)
	first <- struct{}{}
	c := startCore(t, g.ca, func(in *relay.Incoming) {
		select {
		case <-first:
			echo(in)
		default:
			serve(in)
		}
	})
	g.lead(c)
	g.wantServed(t, c)
	return c
}

func TestTargetsAreTriedInOrderOfUse(t *testing.T) {
	g := startEntry(t)
	lost, revoked, refusing, ready := startCore(t, g.ca, nil), startCore(t, g.ca, nil),
		startCore(t, g.ca, refuse(relay.CodeDraining, true)), startCore(t, g.ca, nil)
	lost.target.State, revoked.target.State = mesh.CoreLost, mesh.CoreRevoked
	g.lead(lost, revoked, refusing, ready)
	g.wantServed(t, ready)
	if len(refusing.seen()) != 1 {
		t.Errorf("the core before it was asked %d times, want once", len(refusing.seen()))
	}
	g.lead(lost, revoked)
	g.wantServed(t, lost)
	g.lead(revoked)
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	wantClosed(t, conn)
	g.wantEnded(t, entry.NoCore, 1)
	if len(revoked.seen()) != 0 {
		t.Error("a revoked core was asked")
	}
}

func TestARefusalForGoodIsNotTriedElsewhere(t *testing.T) {
	g := startEntry(t)
	first, second := startCore(t, g.ca, refuse(relay.CodeUnknownDevice, false)), startCore(t, g.ca, nil)
	g.lead(first, second)
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	wantClosed(t, conn)
	g.wantEnded(t, entry.Refused, 1)
	if len(second.seen()) != 0 {
		t.Error("the second core was asked")
	}
}

// Failure table, "core killed": its own connections drop, and reconnecting
// works at once.
func TestAKilledCoreIsReplacedByTheNext(t *testing.T) {
	g := startEntry(t)
	first, second := startCore(t, g.ca, nil), startCore(t, g.ca, nil)
	g.lead(first, second)
	conn := g.open(t, name)
	first.kill()
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("the client saw a clean end although its core died")
	}
	for range 3 {
		g.wantServed(t, second)
	}
	results := g.Report().GetDials()
	if len(results) != 2 || len(g.Report().GetDials()) != 0 {
		t.Errorf("results %v, then more", results)
	}
}

// Failure table, "core frozen": its kernel answers and it does not. Its clients
// are served by the next core before they lose patience, and no longer wait for it.
func TestASilentCoreIsOvertakenByTheNext(t *testing.T) {
	g := startEntry(t, func(s *entry.Server) { s.HedgeAfter = 200 * time.Millisecond })
	given := make(chan struct{})
	frozen := g.met(t, func(in *relay.Incoming) {
		ctx, cancel := in.Context(t.Context())
		defer cancel()
		<-ctx.Done()
		given <- struct{}{}
	})
	second := startCore(t, g.ca, nil)
	g.lead(frozen, second)
	begin := time.Now()
	g.wantServed(t, second)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the client was served after %v only", took)
	}
	<-given // the stream that nobody answered
	for range 3 {
		g.wantServed(t, second)
	}
	if n := len(frozen.seen()); n != 2 {
		t.Errorf("the silent core was asked %d times, want twice: before it fell silent, and once", n)
	}
}

// A core that is merely slower than the next one keeps nothing and loses nothing.
func TestAnAttemptThatWasOvertakenCarriesNothing(t *testing.T) {
	g := startEntry(t, func(s *entry.Server) { s.HedgeAfter = 200 * time.Millisecond })
	overtaken, got := make(chan struct{}), make(chan int64, 1)
	slow := g.met(t, func(in *relay.Incoming) {
		<-overtaken
		st, err := in.Accept()
		if err != nil {
			got <- 0
			return
		}
		n, _ := io.Copy(io.Discard, st) // it is reset
		st.Reset(relay.CodeCanceled)
		got <- n
	})
	second := startCore(t, g.ca, nil)
	g.lead(slow, second)
	g.wantServed(t, second)
	close(overtaken)
	if n := <-got; n != 0 {
		t.Errorf("%d bytes of the client came to a core that was overtaken", n)
	}
}

// C-05: the right chain with another id is refused, and a looped dial (E-08)
// ends at the first hop, because an entry is no core.
func TestWhoAnswersMustBeTheCoreOfTheRoute(t *testing.T) {
	g := startEntry(t)
	other, right := startCore(t, g.ca, nil), startCore(t, g.ca, nil)
	pose := func() mesh.Target {
		x := other.target
		x.ID = string(mesh.NewCoreID())
		x.Identity = mesh.Identity{Mesh: g.ca.ID, Role: mesh.RoleCore, ID: x.ID}.String()
		return x
	}
	posing, looped, lying := pose(), pose(), pose()
	looped.Addresses = []netip.AddrPort{netip.MustParseAddrPort(g.addr)}
	lying.Identity = other.target.Identity

	g.leadTo(posing, looped, lying, right.target)
	g.wantServed(t, right)
	_, files := usage(t)
	g.leadTo(posing, looped, lying)
	for i := range 5 {
		conn := dial(t, g.addr)
		send(t, conn, hello(name))
		wantClosed(t, conn)
		conn.Close()
		g.wantEnded(t, entry.NoCore, i+1)
	}
	eventually(t, "no more descriptors than before", func() bool { _, now := usage(t); return now <= files+1 })
	if len(other.seen()) != 0 {
		t.Error("the wrong core was given a stream")
	}
}

// E-13: with TLS 1.3 a refused client certificate shows only on the first read.
// No byte of the client is spent on a core that has not accepted.
func TestACoreThatRefusesTheEntryGetsNoByte(t *testing.T) {
	for _, tt := range []struct {
		name string
		node func(*testing.T, *identitytest.Mesh) *entry.Server
	}{
		{"expired", func(t *testing.T, ca *identitytest.Mesh) *entry.Server {
			return &entry.Server{Node: ca.Node(t, mesh.RoleEntry, identitytest.Expired(time.Minute))}
		}},
		{"of a core", func(t *testing.T, ca *identitytest.Mesh) *entry.Server {
			return &entry.Server{Node: ca.Node(t, mesh.RoleCore)}
		}},
		{"of another mesh", func(t *testing.T, ca *identitytest.Mesh) *entry.Server {
			return &entry.Server{Node: identitytest.NewWithID(t, ca.ID).Node(t, mesh.RoleEntry)}
		}},
	} {
		t.Run("a certificate that is "+tt.name, func(t *testing.T) {
			g := startEntry(t)
			g.Node.Replace(tt.node(t, g.ca).Node)
			c := startCore(t, g.ca, nil)
			g.lead(c)
			conn := dial(t, g.addr)
			send(t, conn, append(hello(name), make([]byte, 4096)...))
			wantClosed(t, conn)
			g.wantEnded(t, entry.NoCore, 1)
			if len(c.seen()) != 0 {
				t.Error("the core saw a stream")
			}
			if len(g.log.with("node did not answer")) != 1 {
				t.Errorf("log: %q, want one warning", g.log.with("level=WARN"))
			}
		})
	}
	t.Run("a certificate that one core holds revoked", func(t *testing.T) {
		g := startEntry(t)
		first, second := startCore(t, g.ca, nil), startCore(t, g.ca, nil)
		rec := g.ca.Revoke(t, mesh.Revocation{Node: g.Node.Identity().Node()})
		if err := first.revs.Apply(true, 0, 1, []mesh.SignedRevocation{rec}); err != nil {
			t.Fatal(err)
		}
		g.lead(first, second)
		conn := dial(t, g.addr)
		b := append(hello(name), make([]byte, 4096)...)
		send(t, conn, b)
		wantBack(t, conn, b)
		if len(first.seen()) != 0 || len(second.seen()) != 1 {
			t.Error("the stream did not come to the second core alone")
		}
	})
}

// Failure table, "core revoked": its connections end at once and new ones go on
// elsewhere.
func TestARevokedCoreIsCut(t *testing.T) {
	g := startEntry(t)
	first, second := startCore(t, g.ca, nil), startCore(t, g.ca, nil)
	g.lead(first, second)
	conn := g.open(t, name)
	rec := g.ca.Revoke(t, mesh.Revocation{Node: "core/" + first.target.ID})
	start := time.Now()
	if err := g.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{rec}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("the client saw a clean end")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("cut after %v, 2 s are promised", took)
	}
	g.wantServed(t, second)

	conn = g.open(t, name)
	second.target.State = mesh.CoreRevoked
	g.TargetChanged(second.target, false)
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("the client saw a clean end after its target was revoked")
	}
}

func TestADeviceHasItsLimit(t *testing.T) {
	g := startEntry(t)
	c := startCore(t, g.ca, nil)
	r := mesh.Route{Name: name, Device: mesh.NewDeviceID(), Limits: mesh.Limits{Connections: 2}}
	g.route.put(r, c.target)
	first := g.open(t, name)
	g.open(t, name)
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	wantClosed(t, conn)
	g.wantEnded(t, entry.LimitDevice, 1)
	first.Close()
	eventually(t, "a place for one more", func() bool {
		conn := dial(t, g.addr)
		send(t, conn, hello(name))
		_, err := io.ReadFull(conn, make([]byte, 10))
		return err == nil
	})
}

func TestLimitsInTotalAndPerSource(t *testing.T) {
	t.Run("in total", func(t *testing.T) {
		g, _ := withCore(t, func(s *entry.Server) { s.Limits.Total = 2 })
		g.open(t, name)
		g.open(t, name)
		wantTurnedAway(t, g.addr)
		g.wantEnded(t, entry.LimitTotal, 1)
	})
	t.Run("per source", func(t *testing.T) {
		g, _ := withCore(t, func(s *entry.Server) { s.Limits.PerSource = 2 })
		g.open(t, name)
		first := g.open(t, name)
		wantTurnedAway(t, g.addr)
		g.wantEnded(t, entry.LimitSource, 1)
		first.Close()
		g.wantEnded(t, entry.Done, 1)
		g.open(t, name)
	})
}

func TestAnExpiredDeviceIsRefusedAndCut(t *testing.T) {
	g := startEntry(t)
	c := startCore(t, g.ca, nil)
	for i, r := range []mesh.Route{
		{Limits: mesh.Limits{Expires: time.Now().Add(-time.Second)}},
		{Until: time.Now().Add(-time.Second)},
		{Until: time.Now().Add(-time.Second), Limits: mesh.Limits{Expires: time.Now().Add(time.Hour)}},
	} {
		r.Name, r.Device = name, mesh.NewDeviceID()
		g.route.put(r, c.target)
		conn := dial(t, g.addr)
		send(t, conn, hello(name))
		wantClosed(t, conn)
		g.wantEnded(t, entry.Expired, i+1)
	}
	g.route.put(mesh.Route{Name: name, Device: mesh.NewDeviceID(), Limits: mesh.Limits{Expires: time.Now().Add(4 * time.Second)}}, c.target)
	conn := g.open(t, name)
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("the client saw a clean end")
	}
	g.wantEnded(t, entry.Expired, 4)
}

func TestTheClientsAddressIsTheRoutesChoice(t *testing.T) {
	g := startEntry(t)
	c := startCore(t, g.ca, nil)
	g.route.put(mesh.Route{Name: name, Device: mesh.NewDeviceID(), ForwardClientAddress: true}, c.target)
	conn := g.open(t, name)
	if got := c.seen()[0].Client.String(); got != conn.LocalAddr().String() {
		t.Errorf("the core saw %s, want %s", got, conn.LocalAddr())
	}
}

func TestNothingOfAClientIsLoggedAboveDebug(t *testing.T) {
	g, _ := withCore(t)
	conn := g.open(t, name)
	addr := conn.LocalAddr().String()
	conn.Close()
	eventually(t, "the line about its end", func() bool { return len(g.log.with("connection ended")) == 1 })
	for _, line := range append(g.log.with(addr), g.log.with(string(name))...) {
		if !bytes.Contains([]byte(line), []byte("level=DEBUG")) {
			t.Errorf("log: %s", line)
		}
	}
	if len(g.log.with(addr)) != 1 {
		t.Errorf("%d lines name the client, want the one at debug level", len(g.log.with(addr)))
	}
}
