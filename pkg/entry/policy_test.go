package entry_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// forbidden is where a pod has no business: it answers while it is open.
type forbidden struct {
	addr  string
	open  atomic.Bool
	looks atomic.Int64 // that were accepted
}

func startForbidden(t *testing.T) *forbidden {
	t.Helper()
	m := identitytest.New(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forbidden{addr: ln.Addr().String()}
	conf := &tls.Config{Certificates: []tls.Certificate{m.Certificate(t, m.Identity(mesh.RoleMgmt))}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				f.looks.Add(1)
				if f.open.Load() {
					tls.Server(c, conf).HandshakeContext(t.Context())
				} // else as a proxy beside the pod: accepted, and nothing comes
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return f
}

// probe looks often until the test ends.
func probe(t *testing.T, addr string) (p *entry.PolicyProbe, changed chan struct{}) {
	t.Helper()
	changed = make(chan struct{}, 1)
	const soon = 2 * time.Millisecond
	p = &entry.PolicyProbe{Address: addr, Every: soon, Soon: soon, Open: soon, Wait: 10 * time.Second, Changed: changed, Log: logTo(new(lines))}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p, changed
}

func wantVerdict(t *testing.T, p *entry.PolicyProbe, changed chan struct{}, want mesh.KubePolicy) {
	t.Helper()
	eventually(t, "verdict "+string(want), func() bool { return p.Verdict() == want })
	eventually(t, "told of "+string(want), func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	})
}

func TestAPolicyThatIsInForce(t *testing.T) {
	p, changed := probe(t, freeport.Addr(t)) // refused, as some policies do
	wantVerdict(t, p, changed, mesh.PolicyEnforced)
	f := startForbidden(t)
	p, changed = probe(t, f.addr)
	wantVerdict(t, p, changed, mesh.PolicyEnforced)
	if f.looks.Load() == 0 {
		t.Error("it did not look")
	}
}

// It takes more than a look to say so, and more to take it back: a policy may come
// into force a moment after the pod has started, and an API that is down answers
// nobody.
func TestAPolicyThatNobodyObeys(t *testing.T) {
	f := startForbidden(t)
	f.open.Store(true)
	p, changed := probe(t, f.addr)
	wantVerdict(t, p, changed, mesh.PolicyOpen)
	if n := f.looks.Load(); n < 3 {
		t.Errorf("said after %d looks", n)
	}
	f.open.Store(false)
	before := f.looks.Load()
	wantVerdict(t, p, changed, mesh.PolicyEnforced)
	if n := f.looks.Load() - before; n < 4 {
		t.Errorf("taken back after %d looks", n)
	}
	f.open.Store(true)
	wantVerdict(t, p, changed, mesh.PolicyOpen)
}

func TestWhatIsReportedOfThePolicy(t *testing.T) {
	f := startForbidden(t)
	f.open.Store(true)
	p, changed := probe(t, f.addr)
	g := startEntry(t, func(s *entry.Server) { s.Policy = p })
	plain := startEntry(t)
	wantVerdict(t, p, changed, mesh.PolicyOpen)
	if got := g.Report().GetPolicy(); got != "open" {
		t.Errorf("a pod reports %q", got)
	}
	if got := plain.Report().GetPolicy(); got != "" {
		t.Errorf("an entry that is no pod reports %q", got)
	}
}
