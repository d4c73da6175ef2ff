package mgmt

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestAPanicBeforeThereIsAMeshEndsOneCall asks for a promise that a server which
// cannot name its own key gives.
func TestAPanicBeforeThereIsAMeshEndsOneCall(t *testing.T) {
	logs, reg := new(logBuffer), prometheus.NewRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	given := promise{Founder: mesh.NewServerID(), Name: "a", Mesh: mesh.NewID(), RootHash: bytes.Repeat([]byte{1}, 32)}
	x := &former{
		srv: &Server{Config: testConfig(t.TempDir())}, secret: mesh.NewSecret(MinBootstrapSecret), now: time.Now, log: logs.logger(),
		state: formation{Name: "b", Promise: &given}, turn: make(chan struct{}, 1),
	}
	x.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&formingDoor{former: x, ln: ln, metrics: m}).run(ctx) }()
	ask := func(clock time.Time) (*controlpb.PromiseResponse, error) {
		l, err := dialOpen(ctx, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		return l.promise(ctx, x.secret, &controlpb.PromiseRequest{
			Founder: string(given.Founder), FounderName: given.Name, MeshId: string(given.Mesh), RootHash: given.RootHash,
			Addresses: []string{"192.0.2.1:7600"}, ClockUnixNanos: clock.UnixNano(),
		})
	}
	if resp, err := ask(time.Now()); err == nil || strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v, %v; want a fault without its cause", resp, err)
	}
	if _, n := counted(t, reg, "meshctl_mgmt_panics_total"); n != 1 || !strings.Contains(logs.String(), "call panicked") {
		t.Errorf("%v panics counted; log:\n%s", n, logs)
	}
	if resp, err := ask(time.Now().Add(time.Hour)); err != nil || !strings.Contains(resp.GetRefusal(), "the clocks are") {
		t.Errorf("after the panic: %v, %v", resp, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// The server that comes of it counts on.
	if next, err := newMetrics(reg); err != nil || next.panics != m.panics {
		t.Errorf("the counters begin anew: %v", err)
	}
}

func TestAPanicInAHandshakeEndsOneConnection(t *testing.T) {
	logs, reg := new(logBuffer), prometheus.NewRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(testConfig("/x").Rates, m.turned)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	leave, ok := g.enter(addr("192.0.2.1"), time.Now(), func() {})
	if !ok {
		t.Fatal("refused")
	}
	p := &port{
		gate: g, metrics: m, log: logs.logger(),
		tls: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { panic("a library's fault") }},
	}
	go tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()) // it ends when ours is closed
	p.identify(t.Context(), ours, remoteOf(ours), leave)
	if _, n := counted(t, reg, "meshctl_mgmt_panics_total"); n != 1 || !strings.Contains(logs.String(), "handshake panicked") {
		t.Errorf("%v panics counted; log:\n%s", n, logs)
	}
	if g.open != 0 || g.shaking.Len() != 0 {
		t.Errorf("%d connections and %d handshakes stay counted", g.open, g.shaking.Len())
	}
}
