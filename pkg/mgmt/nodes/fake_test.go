package nodes

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// fake is a node driven by a test: a certificate and, for a core, a port that
// answers probes.
type fake struct {
	t     *testing.T
	n     *network
	id    mesh.Identity
	node  *identity.Node
	hello *controlpb.Hello

	mu     sync.Mutex // guards what follows
	nonces map[[16]byte][]byte
	wrong  bool // answers probes wrongly
}

func (n *network) fake(id mesh.Identity) *fake {
	return &fake{t: n.t, n: n, id: id, node: n.ids.NodeAs(n.t, id), nonces: map[[16]byte][]byte{},
		hello: &controlpb.Hello{Version: "test", Instance: "one", Boot: 1, Start: 1}}
}

// relay opens the core's port, which answers probes as node.
func (f *fake) relay(node *identity.Node) {
	f.t.Helper()
	policy := identity.Policy{Accept: identity.RelayPort().Accept}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", node.ServerTLS(policy, identity.ProtoRelay, identity.ProtoProbe))
	if err != nil {
		f.t.Fatal(err)
	}
	f.hello.RelayPort = uint32(ln.Addr().(*net.TCPAddr).Port)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.answerProbe(c) })
		}
	})
	f.t.Cleanup(func() { ln.Close(); wg.Wait() })
}

func (f *fake) answerProbe(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(patient))
	var half [16]byte
	if _, err := io.ReadFull(c, half[:]); err != nil {
		return
	}
	f.mu.Lock()
	rest, wrong := f.nonces[half], f.wrong
	f.mu.Unlock()
	if wrong {
		rest = make([]byte, 16)
	}
	c.Write(rest)
}

// line is one open stream of a fake.
type line struct {
	t      *testing.T
	stream controlpb.NodeControl_ConnectClient
	in     chan *controlpb.MgmtMessage // closed at the end of the stream
	end    error                       // valid when in is closed
	ended  chan struct{}               // closed after in
	hangUp func()

	sending sync.Mutex // held to send: a test does, and what lives on the line
}

// dial opens a stream; nothing is sent yet.
func (f *fake) dial() *line {
	f.t.Helper()
	return f.dialAt(f.n.addr)
}

func (f *fake) dialAt(addr string) *line {
	f.t.Helper()
	expect := mesh.Identity{Mesh: f.id.Mesh, Role: mesh.RoleMgmt}
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(f.node.ClientTLS(expect, nil, identity.ProtoGRPC))))
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := controlpb.NewNodeControlClient(cc).Connect(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	l := &line{t: f.t, stream: st, in: make(chan *controlpb.MgmtMessage, 1000), ended: make(chan struct{})}
	done := l.ended
	go func() {
		defer close(done)
		defer close(l.in)
		for {
			m, err := st.Recv()
			if err != nil {
				l.end = err
				return
			}
			l.in <- m
		}
	}()
	l.hangUp = sync.OnceFunc(func() { cancel(); <-done; cc.Close() })
	f.t.Cleanup(l.hangUp)
	return l
}

func (l *line) send(m *controlpb.NodeMessage) {
	l.t.Helper()
	if err := l.put(m); err != nil && err != io.EOF {
		l.t.Fatal(err)
	}
}

// flood sends m until the stream has ended: how many that takes depends on how
// fast the machine is.
func (l *line) flood(m *controlpb.NodeMessage) {
	l.t.Helper()
	for late := time.After(patient); ; {
		select {
		case <-l.ended:
			return
		case <-late:
			l.t.Fatal("the stream does not end")
		default:
			l.send(m)
		}
	}
}

func (l *line) put(m *controlpb.NodeMessage) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	return l.stream.Send(m)
}

// next returns the next message, or nil at the end of the stream.
func (l *line) next() *controlpb.MgmtMessage {
	l.t.Helper()
	select {
	case m := <-l.in:
		return m
	case <-time.After(patient):
		l.t.Fatal("no message")
		return nil
	}
}

// until returns the next message for which ok, dropping the others.
func until[T any](l *line, get func(*controlpb.MgmtMessage) *T) *T {
	l.t.Helper()
	for {
		m := l.next()
		if m == nil {
			l.t.Fatalf("the stream ended: %v", l.end)
		}
		if v := get(m); v != nil {
			return v
		}
	}
}

// wantEnd waits for the end of the stream with that code and text.
func (l *line) wantEnd(code codes.Code, text string) {
	l.t.Helper()
	for l.next() != nil {
	}
	if status.Code(l.end) != code || !strings.Contains(l.end.Error(), text) {
		l.t.Errorf("the stream ended with %v, want %v and %q", l.end, code, text)
	}
}

// greet sends hello with the clock of now and waits for the welcome.
func (f *fake) greet() *line {
	f.t.Helper()
	l := f.sayHello()
	if m := l.next(); m.GetWelcome() == nil {
		f.t.Fatalf("first message is %v (%v), want a welcome", m, l.end)
	}
	return l
}

func (f *fake) sayHello() *line {
	f.t.Helper()
	l := f.dial()
	if f.hello.ClockUnixNanos == 0 {
		f.hello.ClockUnixNanos = time.Now().UnixNano()
		defer func() { f.hello.ClockUnixNanos = 0 }()
	}
	l.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{Hello: f.hello}})
	return l
}

// live behaves as a good node does until the stream ends: it acknowledges what
// it gets and answers pings and probes. onDevices is asked before a table is
// acknowledged; nil: always.
func (f *fake) live(l *line, onDevices func(*controlpb.Devices) bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range l.in {
			f.react(l, m, onDevices)
		}
	}()
	f.t.Cleanup(func() { l.hangUp(); <-done })
}

func (f *fake) react(l *line, m *controlpb.MgmtMessage, onDevices func(*controlpb.Devices) bool) {
	switch b := m.GetBody().(type) {
	case *controlpb.MgmtMessage_Config:
		l.ack(controlpb.Ack_KIND_CONFIG, b.Config.GetRevision(), "")
	case *controlpb.MgmtMessage_Revocations:
		l.ack(controlpb.Ack_KIND_REVOCATIONS, b.Revocations.GetRevision(), "")
	case *controlpb.MgmtMessage_Devices:
		if !b.Devices.GetMore() && (onDevices == nil || onDevices(b.Devices)) {
			l.ack(controlpb.Ack_KIND_DEVICES, b.Devices.GetRevision(), "")
		}
	case *controlpb.MgmtMessage_Ping:
		l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Pong{Pong: b.Ping}})
	case *controlpb.MgmtMessage_Probe:
		n := b.Probe.GetNonce()
		f.mu.Lock()
		f.nonces[[16]byte(n[:16])] = n[16:]
		f.mu.Unlock()
		l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_ProbeReady{ProbeReady: &controlpb.ProbeReady{Nonce: n}}})
	}
}

// post is send for goroutines: an ended stream shows elsewhere.
func (l *line) post(m *controlpb.NodeMessage) {
	if err := l.put(m); err != nil && err != io.EOF && status.Code(err) != codes.Canceled {
		l.t.Errorf("send: %v", err)
	}
}

func (l *line) ack(k controlpb.Ack_Kind, rev int64, fault string) {
	l.post(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ack{Ack: &controlpb.Ack{Kind: k, Revision: rev, Error: fault}}})
}

// readyCore is a core that is connected, dialled and ready.
func (n *network) readyCore(name string) *fake {
	n.t.Helper()
	f := n.addCore(name)
	f.relay(f.node)
	f.live(f.greet(), nil)
	n.wantState(f, mesh.CoreReady)
	return f
}

func (n *network) wantState(f *fake, s mesh.CoreState) mesh.Core {
	n.t.Helper()
	eventually(n.t, "core is "+string(s), func() bool { return n.core(f).State == s })
	return n.core(f)
}
