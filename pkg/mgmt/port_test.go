package mgmt

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// portRig is a port without a gRPC server behind it.
type portRig struct {
	mesh *identitytest.Mesh
	revs *identity.Revocations
	out  *conveyor
	addr string
	conf *tls.Config
}

func newPortRig(t *testing.T, rates Rates) *portRig {
	t.Helper()
	m := identitytest.New(t)
	revs, err := identity.OpenRevocations("", m.Roots(), m.ID)
	if err != nil {
		t.Fatal(err)
	}
	server := m.Node(t, mesh.RoleMgmt)
	met, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r := &portRig{mesh: m, revs: revs, out: newConveyor()}
	p := &port{
		door: doorMesh,
		tls:  server.ServerTLS(identity.Policy{Revocations: revs, Accept: identity.MgmtPort().Accept, Anonymous: true}, identity.ProtoGRPC),
		gate: newGate(rates, met.turned),
		revs: revs,
		out:  r.out, metrics: met,
		log: slog.New(slog.DiscardHandler),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	r.conf = m.Node(t, mesh.RoleCore).ClientTLS(mesh.Identity{Mesh: m.ID, Role: mesh.RoleMgmt}, nil, identity.ProtoGRPC)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		r.out.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

func (r *portRig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// take returns what the port made of a connection, or nil if it refused it.
func (r *portRig) take(t *testing.T) *knownConn {
	t.Helper()
	type accepted struct {
		c   net.Conn
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		c, err := r.out.Accept()
		got <- accepted{c, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			t.Fatal(a.err)
		}
		t.Cleanup(func() { a.c.Close() })
		return a.c.(*knownConn)
	case <-time.After(10 * time.Second):
		t.Fatal("the port handed nothing over")
		return nil
	}
}

// refused waits until the other end has closed c.
func refused(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Fatal("the connection is still open")
		}
	}
}

var ample = Rates{Connections: 1000, ConnectionsBurst: 1000, Handshakes: 400, Open: 1000, TokenFailures: 1000}

func TestAPeerIsKnownByItsCertificate(t *testing.T) {
	r := newPortRig(t, ample)
	for _, role := range []mesh.Role{mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin, mesh.RoleMgmt} {
		node := r.mesh.Node(t, role)
		c := tls.Client(r.dial(t), node.ClientTLS(mesh.Identity{Mesh: r.mesh.ID, Role: mesh.RoleMgmt}, nil, identity.ProtoGRPC))
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		known := r.take(t)
		if known.caller.kind != kind(role) || known.caller.peer.ID != node.Identity().ID || known.caller.door != doorMesh {
			t.Errorf("%s: known as %+v", role, known.caller)
		}
	}
	c := tls.Client(r.dial(t), identity.PinnedTLS(r.mesh.RootHash(), identity.ProtoGRPC))
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if known := r.take(t); known.caller.kind != kindNobody {
		t.Errorf("without a certificate: known as %+v", known.caller)
	}
}

func TestWhoIsNoPeerIsRefused(t *testing.T) {
	r := newPortRig(t, ample)
	other := identitytest.NewWithID(t, r.mesh.ID)
	mgmt := mesh.Identity{Mesh: r.mesh.ID, Role: mesh.RoleMgmt}
	withCert := func(cert tls.Certificate, alpn ...string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, NextProtos: alpn, Certificates: []tls.Certificate{cert}}
	}
	core := r.mesh.Identity(mesh.RoleCore)
	for name, conf := range map[string]*tls.Config{
		"a certificate of another root of the same mesh id": withCert(other.Certificate(t, core), identity.ProtoGRPC),
		"an expired certificate without a grace period":     withCert(r.mesh.Certificate(t, core, identitytest.Expired(time.Minute)), identity.ProtoGRPC),
		"no protocol named":    withCert(r.mesh.Certificate(t, core)),
		"the relay's protocol": r.mesh.Node(t, mesh.RoleEntry).ClientTLS(mgmt, nil, identity.ProtoRelay),
		"TLS 1.2":              {InsecureSkipVerify: true, NextProtos: []string{identity.ProtoGRPC}, MaxVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			c := tls.Client(r.dial(t), conf)
			if err := c.Handshake(); err == nil {
				refused(t, c) // TLS 1.3: the client learns it on its first read
			}
		})
	}
}

func TestAStrangerSpendsLittle(t *testing.T) {
	r := newPortRig(t, ample)
	t.Run("bytes before the handshake is over", func(t *testing.T) {
		c := r.dial(t)
		record := append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 1<<14)...)
		record[5], record[6] = 1, 0xff // a ClientHello that claims 16 MiB
		for range 16 {
			if _, err := c.Write(record); err != nil {
				break
			}
		}
		refused(t, c)
	})
	t.Run("bytes after it, without a certificate", func(t *testing.T) {
		c := tls.Client(r.dial(t), identity.PinnedTLS(r.mesh.RootHash(), identity.ProtoGRPC))
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		known := r.take(t)
		go func() {
			for range 64 {
				if _, err := c.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}()
		n, err := io.Copy(io.Discard, known)
		if err == nil || n > strangerBytes {
			t.Errorf("read %d bytes, then %v; want an error before %d", n, err, strangerBytes)
		}
		known.cut()
	})
}

func TestTheGateCountsEveryConnection(t *testing.T) {
	r := newPortRig(t, Rates{Connections: 1, ConnectionsBurst: 3, Handshakes: 8, Open: 2, TokenFailures: 1})
	for range 2 {
		c := tls.Client(r.dial(t), r.conf.Clone())
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		r.take(t)
	}
	refused(t, r.dial(t)) // a third one is open
	refused(t, r.dial(t)) // the burst is used up
}

// One node, or all strangers together, cannot keep the others out by having
// connections open.
func TestNobodyTakesAllConnections(t *testing.T) {
	r := newPortRig(t, Rates{Connections: 1000, ConnectionsBurst: 1000, Handshakes: 400, Open: 100, TokenFailures: 1})
	open := func(conf *tls.Config) *tls.Conn {
		c := tls.Client(r.dial(t), conf)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	unknown := identity.PinnedTLS(r.mesh.RootHash(), identity.ProtoGRPC)
	for range 25 {
		open(unknown)
		r.take(t)
	}
	refused(t, open(unknown))
	for range maxPerNode - 1 {
		open(r.conf)
		r.take(t)
	}
	last := open(r.conf)
	known := r.take(t)
	refused(t, open(r.conf))
	another := r.mesh.Node(t, mesh.RoleEntry).ClientTLS(mesh.Identity{Mesh: r.mesh.ID, Role: mesh.RoleMgmt}, nil, identity.ProtoGRPC)
	open(another)
	r.take(t)
	known.Close()
	refused(t, last)
	open(r.conf)
	r.take(t)
}

// Handshakes that are never finished make room for others.
func TestSlowHandshakesKeepNobodyOut(t *testing.T) {
	met, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(Rates{Connections: 1000, ConnectionsBurst: 1000, Handshakes: 8, Open: 100, TokenFailures: 1}, met.turned)
	var cut []int
	enter := func(i int, from string) (*passage, bool) {
		return g.enter(addr(from), time.Now(), func() { cut = append(cut, i) })
	}
	for i, from := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3", "192.0.2.4", "192.0.2.4"} {
		if _, ok := enter(i, from); !ok {
			t.Fatalf("handshake %d is refused", i)
		}
	}
	if _, ok := enter(8, "192.0.2.4"); ok {
		t.Error("an address has more than a quarter of the handshakes")
	}
	p, ok := enter(9, "192.0.2.5")
	if !ok || !slices.Equal(cut, []int{0}) {
		t.Errorf("a new one: admitted %v, cut %v; want the first one cut", ok, cut)
	}
	p.shaken()
	if _, ok := enter(10, "192.0.2.6"); !ok || len(cut) != 1 {
		t.Errorf("after one is over: admitted %v, cut %v", ok, cut)
	}
	if len(g.by) != 5 || g.by[addr("192.0.2.1")] != 1 {
		t.Errorf("by address: %v", g.by)
	}
}

func TestARevokedPeersConnectionsAreCut(t *testing.T) {
	r := newPortRig(t, ample)
	c := tls.Client(r.dial(t), r.conf)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	known := r.take(t)
	rec := mesh.Revocation{
		ID: "1", Serial: known.caller.peer.Serial, At: time.Now(), By: "test", Until: time.Now().Add(time.Hour),
	}
	if err := r.revs.Apply(true, 0, 1, []mesh.SignedRevocation{r.mesh.Revoke(t, rec)}); err != nil {
		t.Fatal(err)
	}
	refused(t, c)
	if _, err := io.Copy(io.Discard, known); err == nil {
		t.Error("the server's side is still open")
	}
}
