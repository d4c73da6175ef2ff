//go:build faults

package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// Traffic is what clients do while something fails: they hold connections, with a
// byte there and back on each every so often, and open new ones at a steady rate,
// in turns through each entry. Zero fields have defaults.
type Traffic struct {
	Clients   []*Client     // default: the lab's
	Entries   []*Host       // default: all
	Held      int           // connections held; default 40
	Every     time.Duration // between two bytes on one; default 100 ms
	PerSecond int           // new connections; default 20
	// Life is how long a connection is held before it is opened anew; 0 is for ever.
	Life time.Duration
	// Balanced sends new connections to entries that say they are ready only, as a
	// balancer that asks /readyz does.
	Balanced bool
	// Failover makes a client whose new connection failed try once more through
	// the next entry, as a balancer would.
	Failover bool
}

// Measured is what clients noticed.
type Measured struct {
	New, FailedNew int
	Held, LostOpen int
	// Stall is the longest wait of a held connection for its byte or its end,
	// SlowestNew that of a new one to be served.
	Stall, SlowestNew time.Duration
	// Trouble is the time from the fault to the last failure; 0 without one.
	Trouble time.Duration
	Errors  map[string]int // what clients saw, with how often
}

func (m Measured) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "new %d (failed %d, slowest %v), held %d (lost %d, longest stall %v), last failure %v after the fault",
		m.New, m.FailedNew, m.SlowestNew.Round(time.Millisecond), m.Held, m.LostOpen, m.Stall.Round(time.Millisecond), m.Trouble.Round(time.Millisecond))
	for _, text := range slices.Sorted(maps.Keys(m.Errors)) {
		fmt.Fprintf(&out, "\n    %d x %s", m.Errors[text], text)
	}
	return out.String()
}

// Running is traffic that goes on.
type Running struct {
	Traffic
	stop chan struct{}
	end  func() // closes stop
	wg   sync.WaitGroup

	ready atomic.Pointer[[]*Host]

	mu    sync.Mutex // guards what follows
	fault time.Time
	m     Measured
}

// Start opens the held connections and begins. The test's end stops it.
func (l *Lab) Start(t testing.TB, tr Traffic) *Running {
	t.Helper()
	if tr.Clients == nil {
		tr.Clients = l.clients
	}
	if tr.Entries == nil {
		tr.Entries = l.Entries
	}
	tr.Held, tr.PerSecond = orDefault(tr.Held, 40), orDefault(tr.PerSecond, 20)
	tr.Every = orDefault(tr.Every, 100*time.Millisecond)
	r := &Running{Traffic: tr, stop: make(chan struct{}), fault: time.Now(), m: Measured{Errors: map[string]int{}}}
	r.end = sync.OnceFunc(func() { close(r.stop) })
	t.Cleanup(func() { r.end(); r.wg.Wait() })
	ctx := context.WithoutCancel(t.Context()) // what is under way at the end counts
	r.ready.Store(&tr.Entries)
	if tr.Balanced {
		r.wg.Go(func() { r.balance(ctx) })
	}
	for i := range tr.Held {
		tun, err := r.client(i).Connect(ctx, r.entry(i))
		if err != nil {
			t.Fatalf("before anything has failed: %v", err)
		}
		r.m.Held++
		r.wg.Go(func() { r.keep(ctx, i, tun) })
	}
	r.wg.Go(func() { r.open(ctx) })
	return r
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (r *Running) client(i int) *Client { return r.Clients[i/len(r.Entries)%len(r.Clients)] }

// entry is the one of the i-th connection.
func (r *Running) entry(i int) *Host {
	ready := *r.ready.Load()
	return ready[i%len(ready)]
}

// balance asks every entry a few times a second whether it wants more clients.
func (r *Running) balance(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		var ready []*Host
		for _, e := range r.Entries {
			if e.Ready(ctx) == nil {
				ready = append(ready, e)
			}
		}
		if len(ready) > 0 {
			r.ready.Store(&ready)
		}
	}
}

// Fault marks the moment of the fault.
func (r *Running) Fault() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = time.Now()
}

// Go lets traffic run for some time.
func (r *Running) Go(d time.Duration) { <-time.After(d) }

// Stop ends the traffic, waits for connections under way, and returns and logs
// what was measured.
func (r *Running) Stop(t testing.TB) Measured {
	t.Helper()
	r.end()
	r.wg.Wait()
	t.Log(r.m)
	return r.m
}

// keep holds a connection, and others after it when its life is limited.
func (r *Running) keep(ctx context.Context, i int, tun *lab.Tunnel) {
	for r.hold(tun) {
		var err error
		if tun, err = r.client(i).Connect(ctx, r.entry(i)); err != nil {
			r.note(err, func(m *Measured) { m.New++; m.FailedNew++ })
			return
		}
		r.note(nil, func(m *Measured) { m.Held++ })
	}
}

// hold returns true when the connection has lived its life.
func (r *Running) hold(tun *lab.Tunnel) bool {
	defer tun.Close()
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	var over <-chan time.Time
	if r.Life > 0 {
		over = time.After(r.Life)
	}
	for b := byte(0); ; b++ {
		select {
		case <-over:
			return true
		case <-r.stop:
			return false
		case <-tick.C:
		}
		begin := time.Now()
		err := tun.Echo(b, time.Minute)
		r.note(err, func(m *Measured) {
			if m.Stall = max(m.Stall, time.Since(begin)); err != nil {
				m.LostOpen++
			}
		})
		if err != nil {
			return false
		}
	}
}

func (r *Running) open(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(r.PerSecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			r.wg.Go(func() { r.openOne(ctx, i) })
		}
	}
}

func (r *Running) openOne(ctx context.Context, i int) {
	begin := time.Now()
	err := r.client(i).Try(ctx, r.entry(i))
	if err != nil && r.Failover {
		err = r.client(i).Try(ctx, r.entry(i+1))
	}
	r.note(err, func(m *Measured) {
		m.New++
		if err != nil {
			m.FailedNew++
			return
		}
		m.SlowestNew = max(m.SlowestNew, time.Since(begin))
	})
}

func (r *Running) note(err error, count func(*Measured)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count(&r.m)
	if err != nil {
		_, cause, _ := strings.Cut(err.Error(), "->") // without ports, so that equals are counted
		if cause == "" {
			cause = err.Error()
		}
		r.m.Errors[cause]++
		r.m.Trouble = time.Since(r.fault)
	}
}
