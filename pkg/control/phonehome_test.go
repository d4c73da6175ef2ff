package control_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// quietRole reports and accepts everything, and sends one message beside.
type quietRole struct{}

func (r *quietRole) Hello(*controlpb.Hello)                               { /* adds nothing */ }
func (r *quietRole) ApplyConfig(context.Context, *controlpb.Config) error { return nil }
func (r *quietRole) Handle(_ context.Context, _ *controlpb.MgmtMessage, send control.Send) error {
	return send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_ProbeReady{ProbeReady: &controlpb.ProbeReady{}}})
}
func (r *quietRole) Report() *controlpb.Report { return &controlpb.Report{State: "ready"} }
func (r *quietRole) Attend(ctx context.Context, send control.Send) error {
	err := send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_CellRequest{CellRequest: &controlpb.CellRequest{}}})
	<-ctx.Done()
	return err
}

// home starts a phone-home and returns it with a function that stops it.
func home(t *testing.T, p *control.PhoneHome) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func phone(t *testing.T, m *identitytest.Mesh, addrs ...string) *control.PhoneHome {
	return &control.PhoneHome{
		Node: m.Node(t, mesh.RoleCore), State: state(t, addrs...), Revocations: m.Revocations(t),
		Role: &quietRole{}, Version: "test", Log: logger(t),
		Backoff: control.Backoff{Min: 10 * time.Millisecond, Max: 50 * time.Millisecond},
	}
}

func welcome(m *identitytest.Mesh) *controlpb.MgmtMessage {
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Welcome{Welcome: &controlpb.Welcome{
		MeshId: string(m.ID), MeshEpoch: 1, ClockUnixNanos: time.Now().UnixNano(), Observed: "192.0.2.7:1234",
	}}}
}

// attentive welcomes every node, answers pings, and passes on what it hears.
func attentive(m *identitytest.Mesh, heard chan<- *controlpb.NodeMessage) func(controlpb.NodeControl_ConnectServer) error {
	return func(s controlpb.NodeControl_ConnectServer) error {
		first, err := s.Recv()
		if err != nil {
			return err
		}
		heard <- first
		if err := s.Send(welcome(m)); err != nil {
			return err
		}
		for {
			msg, err := s.Recv()
			if err != nil {
				return nil
			}
			if p := msg.GetPing(); p != nil {
				if err := s.Send(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Pong{Pong: p}}); err != nil {
					return err
				}
				continue
			}
			heard <- msg
			if msg.GetReport() != nil {
				probe := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Probe{Probe: &controlpb.Probe{}}}
				if err := s.Send(probe); err != nil {
					return err
				}
			}
			if msg.GetGoodbye() != nil {
				return nil
			}
		}
	}
}

func hear(t *testing.T, from <-chan *controlpb.NodeMessage, what string, is func(*controlpb.NodeMessage) bool) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-from:
			if is(m) {
				return
			}
		case <-late:
			t.Fatalf("never heard %s", what)
		}
	}
}

func TestPhoneHomeFromHelloToGoodbye(t *testing.T) {
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	srv := serve(t, &mgmt{connect: attentive(m, heard)}, m.Node(t, mesh.RoleMgmt), nil)
	p := phone(t, m, nobody(t), srv.addr)
	stop := home(t, p)
	hear(t, heard, "the hello", func(m *controlpb.NodeMessage) bool { return m.GetHello().GetVersion() == "test" })
	hear(t, heard, "a report", func(m *controlpb.NodeMessage) bool { return m.GetReport().GetState() == "ready" })
	hear(t, heard, "the role's answer", func(m *controlpb.NodeMessage) bool { return m.GetProbeReady() != nil })
	eventually(t, "the status says connected", func() bool {
		s := p.Status()
		return s.Connected && s.Observed == "192.0.2.7:1234" && strings.HasPrefix(s.Server, "mgmt/")
	})
	stop()
	hear(t, heard, "the goodbye", func(m *controlpb.NodeMessage) bool { return m.GetGoodbye() != nil })
}

func TestPhoneHomeRunsWhatTheRoleSendsByItself(t *testing.T) {
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	srv := serve(t, &mgmt{connect: attentive(m, heard)}, m.Node(t, mesh.RoleMgmt), nil)
	stop := home(t, phone(t, m, srv.addr))
	defer stop()
	hear(t, heard, "the cell request", func(m *controlpb.NodeMessage) bool { return m.GetCellRequest() != nil })
}

// mute is a connection that at some moment swallows what is written and
// delivers nothing more: a network that drops packets.
type mute struct {
	net.Conn
	cut <-chan struct{}
}

func (c *mute) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !isOpen(c.cut) && err == nil {
		return c.Conn.Read(b) // what arrived is lost; wait on
	}
	return n, err
}

func (c *mute) Write(b []byte) (int, error) {
	if !isOpen(c.cut) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// H-03, with the time scaled down: the node leaves a dead connection for
// another server.
func TestPhoneHomeLeavesADeadConnection(t *testing.T) {
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	node := m.Node(t, mesh.RoleMgmt)
	one := serve(t, &mgmt{connect: attentive(m, heard)}, node, nil)
	two := serve(t, &mgmt{connect: attentive(m, heard)}, node, nil)
	cut := make(chan struct{})
	var dials atomic.Int64
	p := phone(t, m, one.addr, two.addr)
	p.PingEvery = 60 * time.Millisecond
	p.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil || dials.Add(1) > 1 {
			return c, err
		}
		return &mute{c, cut}, nil
	}
	stop := home(t, p)
	defer stop()
	hear(t, heard, "the hello", func(m *controlpb.NodeMessage) bool { return m.GetHello() != nil })
	eventually(t, "connected", func() bool { return p.Status().Connected })
	close(cut)
	hear(t, heard, "a hello on another connection", func(m *controlpb.NodeMessage) bool { return m.GetHello() != nil })
}

func TestPhoneHomeGoesElsewhereAfterGoodbye(t *testing.T) {
	t.Parallel()
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	leaving := serve(t, &mgmt{connect: func(s controlpb.NodeControl_ConnectServer) error {
		if err := errors.Join(s.Send(welcome(m)), s.Send(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Goodbye{Goodbye: &controlpb.Goodbye{Reason: "restart"}}})); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}, m.Node(t, mesh.RoleMgmt), nil)
	staying := serve(t, &mgmt{connect: attentive(m, heard)}, m.Node(t, mesh.RoleMgmt), nil)
	p := phone(t, m, leaving.addr, staying.addr)
	stop := home(t, p)
	defer stop()
	hear(t, heard, "the hello elsewhere", func(m *controlpb.NodeMessage) bool { return m.GetHello() != nil })
}

// C-05: only a management server of this mesh is phoned.
func TestPhoneHomeRefusesWhoIsNoServer(t *testing.T) {
	m, other := identitytest.New(t), identitytest.New(t)
	for name, node := range map[string]*identity.Node{
		"an entry of the mesh":   m.Node(t, mesh.RoleEntry),
		"a core of the mesh":     m.Node(t, mesh.RoleCore),
		"a server of another":    other.Node(t, mesh.RoleMgmt),
		"an expired certificate": m.Node(t, mesh.RoleMgmt, identitytest.Expired(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan *controlpb.NodeMessage, 100)
			srv := serve(t, &mgmt{connect: attentive(m, heard)}, node, nil)
			p := phone(t, m, srv.addr)
			stop := home(t, p)
			defer stop()
			eventually(t, "a refusal", func() bool { return strings.Contains(p.Status().Err, "identity:") })
			if len(heard) != 0 {
				t.Errorf("it heard %v", <-heard)
			}
		})
	}
}

// A node that was refused learns it, although TLS 1.3 tells late.
func TestPhoneHomeSaysThatItsCertificateWasRefused(t *testing.T) {
	m := identitytest.New(t)
	p := phone(t, m)
	revs := m.Revocations(t)
	if err := revs.Apply(true, 0, 1, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Node: p.Node.Identity().Node()})}); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, &mgmt{}, m.Node(t, mesh.RoleMgmt), revs)
	if err := p.State.SetAddresses([]string{srv.addr}); err != nil {
		t.Fatal(err)
	}
	stop := home(t, p)
	defer stop()
	eventually(t, "the reason", func() bool {
		return strings.Contains(p.Status().Err, "the server refused this node's certificate")
	})
}

func TestPhoneHomeLeavesAServerThatIsRevoked(t *testing.T) {
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	node := m.Node(t, mesh.RoleMgmt)
	srv := serve(t, &mgmt{connect: attentive(m, heard)}, node, nil)
	p := phone(t, m, srv.addr)
	stop := home(t, p)
	defer stop()
	eventually(t, "connected", func() bool { return p.Status().Connected })
	if err := p.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Node: node.Identity().Node()})}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream is left", func() bool {
		s := p.Status()
		return !s.Connected && strings.Contains(s.Err, "revoked")
	})
}

func TestPhoneHomeNeedsAnAddress(t *testing.T) {
	if err := phone(t, identitytest.New(t)).Run(t.Context()); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// renewing is a node whose certificate has ended, and what renews it.
func renewing(t *testing.T, m *identitytest.Mesh, srv *mgmt) *control.Renewer {
	t.Helper()
	f, n := m.Folder(t, m.Identity(mesh.RoleCore), identitytest.Life(2*time.Second))
	eventually(t, "the certificate ends", func() bool { return time.Now().After(n.Leaf().NotAfter) })
	return &control.Renewer{Node: n, Folder: f, State: state(t, nobody(t), srv.addr), Revocations: m.Revocations(t), Log: logger(t)}
}

func runRenewer(t *testing.T, r *control.Renewer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// C-09: an outage longer than the certificate's life ends by itself where the
// operator allows a grace period.
func TestRenewerReplacesAnExpiredCertificateWithinGrace(t *testing.T) {
	t.Parallel()
	m := identitytest.New(t)
	srv := serve(t, &mgmt{renew: func(p identity.Peer, r *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
		return &controlpb.RenewResponse{Chain: m.Answer(t, p.Identity, r.GetCsr()), MgmtAddresses: []string{"new:8443"}}, nil
	}}, m.Node(t, mesh.RoleMgmt), nil)
	r := renewing(t, m, srv)
	old := identity.KeyHash(r.Node.Leaf().PublicKey)
	runRenewer(t, r)
	eventually(t, "a new certificate", func() bool { return time.Now().Before(r.Node.Leaf().NotAfter) })
	if identity.KeyHash(r.Node.Leaf().PublicKey) == old {
		t.Error("the key was kept")
	}
	again, err := r.Folder.Load()
	if err != nil || again.Leaf().SerialNumber.Cmp(r.Node.Leaf().SerialNumber) != 0 {
		t.Errorf("stored: %v", err)
	}
	eventually(t, "the addresses are new", func() bool { a := r.State.Addresses(); return len(a) == 1 && a[0] == "new:8443" })
}

func TestRenewerSaysThatItWasRefused(t *testing.T) {
	t.Parallel()
	m := identitytest.New(t)
	srv := serve(t, &mgmt{renew: func(identity.Peer, *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
		return nil, rpcstatus.To(errorOf(mesh.ErrDenied, "this node was revoked"))
	}}, m.Node(t, mesh.RoleMgmt), nil)
	r := renewing(t, m, srv)
	runRenewer(t, r)
	eventually(t, "the reason", func() bool { return strings.Contains(r.Failure(), "this node was revoked") })
}
