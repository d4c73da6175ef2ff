//go:build kube

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// load is what clients do while something happens: they hold connections, each
// with a byte there and back every second and opened anew when its life is over,
// and open new ones at a steady rate.
type load struct {
	held, perSecond int
	life            time.Duration
	entry           string // host:port
}

// steady is the load of the promises: nothing is lost within the drain window.
func steady(entry string) load {
	return load{held: 200, perSecond: 50, life: 20 * time.Second, entry: entry}
}

// noticed is what clients noticed.
type noticed struct {
	opened, failed int
	held, lost     int
	slowest        time.Duration // of the new ones
	errors         map[string]int
}

func (n noticed) String() string {
	return fmt.Sprintf("%d new, %d failed, slowest %.2f s; %d held, %d lost", n.opened, n.failed, n.slowest.Seconds(), n.held, n.lost)
}

// running is a load that goes on.
type running struct {
	load
	devices []*device
	stop    chan struct{}
	end     func() // closes stop
	wg      sync.WaitGroup

	mu sync.Mutex // guards what follows
	n  noticed
}

// begin opens the held connections and goes on. The test's end stops it.
func (m *Mesh) begin(t testing.TB, l load) *running {
	t.Helper()
	r := &running{load: l, devices: m.devices, stop: make(chan struct{}), n: noticed{errors: map[string]int{}}}
	r.end = sync.OnceFunc(func() { close(r.stop) })
	t.Cleanup(func() { r.end(); r.wg.Wait() })
	ctx := context.WithoutCancel(t.Context()) // what is under way at the end counts
	for i := range l.held {
		tun, err := r.device(i).connect(ctx, l.entry)
		if err != nil {
			t.Fatalf("before anything has happened: %v", err)
		}
		r.n.held++
		life := l.life * time.Duration(i+1) / time.Duration(l.held) // so that not all end at once
		r.wg.Go(func() { r.keep(ctx, i, tun, life) })
	}
	r.wg.Go(func() { r.openNew(ctx) })
	return r
}

func (r *running) device(i int) *device { return r.devices[i%len(r.devices)] }

// finish ends the load, waits for what is under way, and returns what clients
// noticed.
func (r *running) finish(t testing.TB) noticed {
	t.Helper()
	r.end()
	r.wg.Wait()
	for _, text := range slices.Sorted(maps.Keys(r.n.errors)) {
		t.Logf("    %d x %s", r.n.errors[text], text)
	}
	return r.n
}

// clean wants that no client noticed a failure.
func (n noticed) clean(t testing.TB) {
	t.Helper()
	if n.failed+n.lost > 0 {
		t.Errorf("%d new connections failed and %d open ones were lost; want none", n.failed, n.lost)
	}
}

// keep holds one connection after the other.
func (r *running) keep(ctx context.Context, i int, tun *lab.Tunnel, life time.Duration) {
	for r.hold(tun, life) {
		var err error
		begin := time.Now()
		tun, err = r.device(i).connect(ctx, r.entry)
		r.note(err, begin, func(n *noticed) { n.opened++; n.held++ }, func(n *noticed) { n.opened++; n.failed++ })
		if err != nil {
			return
		}
		life = r.life
	}
}

// hold returns true when the connection has lived its life.
func (r *running) hold(tun *lab.Tunnel, life time.Duration) bool {
	defer tun.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	over := time.After(life)
	for b := byte(0); ; b++ {
		select {
		case <-over:
			return true
		case <-r.stop:
			return false
		case <-tick.C:
		}
		if err := tun.Echo(b, time.Minute); err != nil {
			r.note(err, time.Time{}, nil, func(n *noticed) { n.lost++ })
			return false
		}
	}
}

func (r *running) openNew(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(r.perSecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			r.wg.Go(func() {
				begin := time.Now()
				err := r.device(i).try(ctx, r.entry)
				r.note(err, begin, func(n *noticed) { n.opened++ }, func(n *noticed) { n.opened++; n.failed++ })
			})
		}
	}
}

func (r *running) note(err error, begin time.Time, well, badly func(*noticed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		well(&r.n)
		r.n.slowest = max(r.n.slowest, time.Since(begin))
		return
	}
	badly(&r.n)
	_, cause, found := strings.Cut(err.Error(), "->") // without ports, so that equals are counted
	if !found {
		cause = err.Error()
	}
	r.n.errors[cause]++
}
