package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

const (
	// balancerEvery and balancerBad are how soon the balancer notices that an entry
	// is not ready, as balancers of clouds do it, but faster.
	balancerEvery = 250 * time.Millisecond
	balancerBad   = 2
)

// balancer sends each connection to the next entry that says it is ready, as a
// Service of Kubernetes does: without a second try.
type balancer struct {
	addr     string
	backends []*backend

	mu   sync.Mutex       // guards what is below and the backends
	next int              // whose turn it is
	took map[string]place // where a client was sent, by its address
}

// place is an entry between two of its starts.
type place struct{ backend, start int }

// backend is one entry.
type backend struct {
	process *dev.Process
	addr    string
	bad     int // looks in a row
	out     bool
	since   time.Time // of out
	start   int
	// ends is when the entry may cut what is still open; zero: it was not told to
	// end.
	ends time.Time
}

func newBalancer(t *testing.T, m *dev.Mesh) *balancer {
	t.Helper()
	b := &balancer{took: map[string]place{}}
	for i, p := range m.Entries {
		b.backends = append(b.backends, &backend{process: p, addr: m.EntryAddresses[i]})
	}
	ctx, stop := context.WithCancel(context.Background())
	var looks sync.WaitGroup
	for _, e := range b.backends {
		looks.Go(func() { b.watch(ctx, e) })
	}
	t.Cleanup(func() { stop(); looks.Wait() })
	b.addr = serve(t, "127.0.0.1:0", b.pass)
	return b
}

// watch looks at the health port of an entry, not at what management says.
func (b *balancer) watch(ctx context.Context, e *backend) {
	tick := time.NewTicker(balancerEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.process.Health+"/readyz", nil)
		if err != nil {
			return // ctx has ended
		}
		resp, err := http.DefaultClient.Do(req)
		ok := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			_ = resp.Body.Close() // it was read as far as it matters
		}
		b.note(e, ok)
	}
}

func (b *balancer) note(e *backend, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		e.bad, e.out = 0, false
		return
	}
	if e.bad++; e.bad >= balancerBad && !e.out {
		e.out, e.since = true, time.Now()
	}
}

// choose takes the next entry that is ready, or any if none is.
func (b *balancer) choose(client string) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next = (b.next + 1) % len(b.backends)
		if !b.backends[b.next].out {
			break
		}
	}
	b.took[client] = place{b.next, b.backends[b.next].start}
	return b.backends[b.next]
}

// pass carries bytes both ways, and the end of each.
func (b *balancer) pass(client *net.TCPConn) {
	to, err := dial(context.Background(), b.choose(client.RemoteAddr().String()).addr)
	if err != nil {
		_ = client.SetLinger(0) // the client sees it refused
		return
	}
	entry := to.(*net.TCPConn)
	defer entry.Close()
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{entry, client}, {client, entry}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				_ = way[0].Close() // the other way ends too
				return
			}
			_ = way[0].CloseWrite() // it may be gone
		})
	}
	both.Wait()
}

// mayEnd says whether the connection of a client may have ended by now, and through
// which entry it went.
func (b *balancer) mayEnd(client net.Addr) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.took[client.String()]
	e := b.backends[at.backend]
	return e.process.Name, at.start < e.start || !e.ends.IsZero() && time.Now().After(e.ends)
}

// noticed is when the balancer stopped using an entry; the zero time: it uses it.
func (b *balancer) noticed(e *backend) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !e.out {
		return time.Time{}
	}
	return e.since
}

// told says that an entry was told to end, and has until then.
func (b *balancer) told(e *backend, ends time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.ends = ends
}

// starts says that an entry is being started again.
func (b *balancer) starts(e *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.start++
	e.ends = time.Time{}
}
