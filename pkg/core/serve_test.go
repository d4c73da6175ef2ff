package core

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// C-05, C-06, E-13: who is no entry of this mesh gets nothing, on either
// protocol, and learns it at the latest when it first reads.
func TestOnlyEntriesRelayAndOnlyManagementProbes(t *testing.T) {
	w := newWorld(t)
	other := identitytest.New(t)
	liar := identitytest.NewWithID(t, w.mesh.ID)
	revoked := w.mesh.Node(t, mesh.RoleEntry)
	rec := w.mesh.Revoke(t, mesh.Revocation{Node: revoked.Identity().Node()})
	if err := w.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{rec}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		node  *identity.Node
		relay bool
		probe bool
	}{
		{"an entry", w.mesh.Node(t, mesh.RoleEntry), true, false},
		{"a management server", w.mesh.Node(t, mesh.RoleMgmt), false, true},
		{"a core", w.mesh.Node(t, mesh.RoleCore), false, false},
		{"an administrator", w.mesh.Node(t, mesh.RoleAdmin), false, false},
		{"an entry of another mesh", other.Node(t, mesh.RoleEntry), false, false},
		{"an entry of a mesh that goes by the same name", liar.Node(t, mesh.RoleEntry), false, false},
		{"an expired entry", w.mesh.Node(t, mesh.RoleEntry, identitytest.Expired(time.Hour)), false, false},
		{"a revoked entry", revoked, false, false},
	}
	for _, tt := range tests {
		if got := w.admits(t, tt.node, relay.ALPN); got != tt.relay {
			t.Errorf("%s relays: %v", tt.name, got)
		}
		if got := w.admits(t, tt.node, relay.ProbeALPN); got != tt.probe {
			t.Errorf("%s probes: %v", tt.name, got)
		}
		if w.admits(t, tt.node, identity.ProtoGRPC) {
			t.Errorf("%s speaks gRPC", tt.name)
		}
	}
}

// admits says whether the core answers node on that protocol with a byte.
func (w *world) admits(t *testing.T, node *identity.Node, alpn string) bool {
	t.Helper()
	// The core of a stranger's mesh would not be believed: look past that.
	cfg := node.ClientTLS(w.Node.Identity(), nil, alpn)
	cfg.VerifyConnection = nil
	c, err := tls.Dial("tcp", w.addr, cfg)
	if err != nil {
		return false
	}
	defer c.Close()
	if alpn == relay.ProbeALPN {
		nonce := bytes.Repeat([]byte{byte(time.Now().UnixNano())}, nonceLen)
		w.tell(t, &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Probe{Probe: &controlpb.Probe{Nonce: nonce}}})
		if _, err := c.Write(nonce[:nonceLen/2]); err != nil {
			return false
		}
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 1)) // a session begins with the core's HELLO
	if isTimeout(err) {
		t.Fatal("neither answer nor refusal")
	}
	return err == nil
}

func TestSessionsOfARevokedEntryAreCut(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	entry := w.mesh.Node(t, mesh.RoleEntry)
	s, err := w.sessionAs(t, entry)
	if err != nil {
		t.Fatal(err)
	}
	addr := destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	tc := w.tunnel(t, s, c, addr)
	began := time.Now()
	rec := w.mesh.Revoke(t, mesh.Revocation{Node: entry.Identity().Node()})
	if err := w.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{rec}); err != nil {
		t.Fatal(err)
	}
	if _, err := tc.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the tunnel: %v", err)
	}
	<-s.Done()
	if took := time.Since(began); took > cutTime {
		t.Errorf("cutting took %v", took)
	}
}

// What a revoked server has open is cut before it runs out by itself.
func TestAProbeOfARevokedServerIsCut(t *testing.T) {
	w := newWorld(t)
	server := w.mesh.Node(t, mesh.RoleMgmt)
	c, err := tls.Dial("tcp", w.addr, server.ClientTLS(mesh.Identity{Mesh: w.mesh.ID, Role: mesh.RoleCore}, nil, relay.ProbeALPN))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rec := w.mesh.Revoke(t, mesh.Revocation{Node: server.Identity().Node()})
	if err := w.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{rec}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.SetDeadline(began.Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > cutTime {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestOneEntryDoesNotKeepOthersOut(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.Sessions = 8 })
	greedy := w.mesh.Node(t, mesh.RoleEntry)
	var ended []<-chan struct{}
	for range 3 {
		s, err := w.sessionAs(t, greedy)
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, s.Done())
	}
	select { // which one the core saw last is its own matter
	case <-ended[0]:
	case <-ended[1]:
	case <-ended[2]:
	case <-time.After(patience):
		t.Error("one entry has more than a quarter of the sessions")
	}
	c := newClient()
	w.know(t, c)
	s, err := w.sessionAs(t, w.mesh.Node(t, mesh.RoleEntry))
	if err != nil {
		t.Fatal(err)
	}
	w.tunnel(t, s, c, destinationAt(t, func(d *net.TCPConn) { _ = d.Close() }))
}

func TestProbesAreAnsweredOnce(t *testing.T) {
	var p probes
	now := time.Now()
	nonce := []byte("0123456789abcdefghijklmnopqrstuv")
	for name, bad := range map[string][]byte{"short": nonce[:31], "long": append(nonce, 0), "none": nil} {
		if err := p.add(bad, now); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.add(nonce, now); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.answer(nonce[16:], now); ok {
		t.Error("the wrong half was answered")
	}
	if rest, ok := p.answer(nonce[:16], now); !ok || string(rest) != string(nonce[16:]) {
		t.Errorf("answered %q, %v", rest, ok)
	}
	if _, ok := p.answer(nonce[:16], now); ok {
		t.Error("answered twice")
	}
	if err := p.add(nonce, now); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.answer(nonce[:16], now.Add(2*time.Minute)); ok {
		t.Error("answered late")
	}
	for i := range 100 {
		if err := p.add(bytes.Repeat([]byte{byte(i)}, nonceLen), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.list) != maxProbes {
		t.Errorf("%d nonces kept", len(p.list))
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	full := newClient(func(d *controlpb.Device) { d.MaxConnections = 1 })
	spent := newClient(func(d *controlpb.Device) { d.MaxTraffic = 1 })
	expired := newClient(func(d *controlpb.Device) { d.ExpiresUnixNanos = time.Now().Add(-time.Second).UnixNano() })
	fine, unknown := newClient(), newClient()
	w.know(t, full, spent, expired, fine)
	s := w.session(t)
	w.connect(t, s, full)
	last := w.connect(t, s, spent)
	if _, err := last.Write(spent.vless(cmdUDP, at("127.0.0.1:9"))); err != nil {
		t.Fatal(err)
	}
	_ = last.Close()
	eventually(t, "the spent device's stream ends", func() bool { _, n := w.devices.count(); return n == 1 })
	foreign := header(fine)
	foreign.ServerName = full.name()
	elsewhere := header(fine)
	elsewhere.ServerName = "x.b.example.net"
	numeric := header(fine)
	numeric.ServerName = "127.0.0.1"
	tests := []struct {
		name      string
		h         relay.Header
		code      relay.Code
		retryable bool
	}{
		{"an unknown device", header(unknown), relay.CodeUnknownDevice, true},
		{"a name of another device", foreign, relay.CodeUnknownDevice, true},
		{"a name of another cell", elsewhere, relay.CodeUnknownDevice, true},
		{"a hostile name", numeric, relay.CodeBadHeader, false},
		{"an expired device", header(expired), relay.CodeExpired, false},
		{"a device with too many connections", header(full), relay.CodeLimit, false},
		{"a device whose traffic is used up", header(spent), relay.CodeLimit, false},
	}
	check := func(name string, h relay.Header, code relay.Code, retryable bool) {
		t.Helper()
		_, err := s.Open(t.Context(), h)
		if r := refused(t, err); r.Code != code || r.Retryable != retryable {
			t.Errorf("%s: %v retryable=%v", name, r, r.Retryable)
		}
	}
	for _, tt := range tests {
		check(tt.name, tt.h, tt.code, tt.retryable)
	}
	w.tell(t, &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Drain{Drain: &controlpb.Drain{}}})
	check("a drained core", header(fine), relay.CodeDraining, true)
	if err := w.ApplyConfig(t.Context(), &controlpb.Config{CellSuffix: suffix, CellId: "cell-1", Drain: true}); err != nil {
		t.Fatal(err)
	}
	check("a core configured to drain", header(fine), relay.CodeDraining, true)
	if err := w.ApplyConfig(t.Context(), &controlpb.Config{CellSuffix: "b.example.net", CellId: "cell-2"}); err != nil {
		t.Fatal(err)
	}
	check("the old cell", header(fine), relay.CodeUnknownDevice, true)
	moved := newClient(func(d *controlpb.Device) { d.ServerNames = []string{"x.b.example.net"} })
	w.know(t, moved)
	check("a cell without a certificate", header(moved), relay.CodeInternal, true)
	if err := w.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), StateUncertificate) {
		t.Errorf("ready: %v", err)
	}
}

func TestStreamsInAllAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.Streams = 1 })
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	w.connect(t, s, c)
	if r := refused(t, openErr(t, s, c)); r.Code != relay.CodeLimit || !r.Retryable {
		t.Errorf("%v", r)
	}
}

func TestServiceEndsAtItsTime(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	c := newClient(func(d *controlpb.Device) { d.ExpiresUnixNanos = time.Now().Add(3 * time.Second).UnixNano() }) // time to connect
	w.know(t, c)
	tc := w.connect(t, s, c)
	if _, err := tc.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("an open stream: %v", err)
	}
}

// forwarding makes a core that sends everything to addr.
func forwarding(addr string) func(*Options) {
	return func(o *Options) { o.Config.Egress = Egress{Kind: EgressForward, Forward: addr} }
}

func TestForwardJoinsStreamAndService(t *testing.T) {
	addr := destinationAt(t, func(d *net.TCPConn) {
		got, err := io.ReadAll(d)
		if err != nil {
			t.Error(err)
		}
		_, _ = d.Write(bytes.ToUpper(got))
		_ = d.Close()
	})
	w := newWorld(t, forwarding(addr))
	c := newClient()
	w.know(t, c)
	eventually(t, "ready without a certificate", func() bool { return w.Ready(t.Context()) == nil })
	st, err := w.session(t).Open(t.Context(), header(c))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := io.WriteString(st, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := st.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(st); err != nil || string(got) != "HELLO" {
		t.Errorf("%q, %v", got, err)
	}
	eventually(t, "the stream is accounted", func() bool {
		u := w.devices.totals()
		_, n := w.devices.count()
		return n == 0 && u.up == 5 && u.down == 5
	})
}

func TestForwardRefusesWhileItsServiceIsAway(t *testing.T) {
	w := newWorld(t, forwarding(freeport.Addr(t)))
	c := newClient()
	w.know(t, c)
	if r := refused(t, openErr(t, w.session(t), c)); r.Code != relay.CodeUnreachable || !r.Retryable {
		t.Errorf("%v", r)
	}
}

// A stopping core finishes what is open and takes nothing new.
func TestDrainOnStop(t *testing.T) {
	w := newWorld(t)
	c := newClient()
	w.know(t, c)
	s := w.session(t)
	addr := destinationAt(t, func(d *net.TCPConn) { _, _ = io.Copy(d, d); _ = d.Close() })
	tc := w.tunnel(t, s, c, addr)
	w.stop()
	eventually(t, "goodbye arrives", func() bool { return !s.Ready() })
	if _, err := io.WriteString(tc, "still"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(tc, make([]byte, 5)); err != nil {
		t.Errorf("an open tunnel during the drain: %v", err)
	}
	if c, err := net.Dial("tcp", w.addr); err == nil {
		_ = c.Close()
		t.Error("the listener is still open")
	}
	if err := tc.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-w.done:
		w.done <- err
	case <-time.After(patience):
		t.Error("the core waits although nothing is open")
	}
}

func TestDrainHasAnEnd(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Drain = 50 * time.Millisecond })
	c := newClient()
	w.know(t, c)
	tc := w.connect(t, w.session(t), c)
	w.stop()
	if _, err := tc.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("an open stream after the drain: %v", err)
	}
}

// E-04 for peers: who does not finish a handshake does not stay.
func TestSilentPeersAreDropped(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Config.Limits.Handshake = 2 * time.Second; o.Config.Limits.PerSource = 2 })
	var conns []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a silent peer: %v", err)
		}
	}
	w.session(t) // and others are served
}

func TestServeEndsWhenItsListenerBreaks(t *testing.T) {
	m := identitytest.New(t)
	s, err := New(Options{Node: m.Node(t, mesh.RoleCore), Revocations: m.Revocations(t), Config: DefaultConfig(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := s.Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
