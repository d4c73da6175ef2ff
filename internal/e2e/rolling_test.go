package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

const (
	rollingTunnels = 200
	rollingEvery   = 20 * time.Millisecond // between two new connections
	rollingWait    = 4 * time.Second
	rollingLimit   = 6 * time.Second
	// rollingVar names the variable for how many new connections there are to be at
	// least; without it, every entry is restarted once.
	rollingVar = "MESHCTL_ROLLING"
)

// TestRollingEntriesLosesNobody restarts entries one after the other behind a
// balancer that goes by their readiness, while clients stay and others come (K-01).
// No new connection may fail, and no open one may end before the time that it was
// given.
func TestRollingEntriesLosesNobody(t *testing.T) {
	least := 1
	if text := os.Getenv(rollingVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", rollingVar, err)
		}
		least = n
	}
	m := newMesh(t, dev.Settings{Cores: 2, Entries: 3, Configure: func(part string, config map[string]any) {
		switch part {
		case "entry-a", "entry-b", "entry-c":
			config["drain"] = map[string]any{"wait": rollingWait.String(), "limit": rollingLimit.String()}
		}
	}})
	r := &rolling{client: addDevice(t, m, "roller"), echo: echoServer(t), lb: newBalancer(t, m)}
	for _, entry := range m.EntryAddresses {
		eventually(t, patience, "served", func() error { return r.client.tryEcho(t.Context(), entry, r.echo) })
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range rollingTunnels {
		clients.Go(func() { r.stay(ctx) })
	}
	eventually(t, 2*patience, "all have come", func() error {
		if n := r.open.Load(); n < rollingTunnels {
			return fmt.Errorf("%d tunnels", n)
		}
		return r.first()
	})
	clients.Go(func() { r.come(ctx) })
	for round := 0; round == 0 || r.fresh.Load() < int64(least); round++ {
		for _, e := range r.lb.backends {
			r.restart(t, m, e)
			if err := r.first(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	clients.Wait()
	if err := r.first(); err != nil {
		t.Error(err)
	}
	t.Logf("new connections: %d, 0 failed; echoes over %d open ones: %d, 0 lost in their time; cut at its end: %d", r.fresh.Load(), rollingTunnels, r.echoes.Load(), r.cut.Load())
	if r.fresh.Load() < int64(least) || r.cut.Load() == 0 {
		t.Errorf("too little was tried")
	}
}

// rolling is what clients see of a rolling update.
type rolling struct {
	client client
	echo   string
	lb     *balancer

	open   atomic.Int64 // tunnels that are there
	fresh  atomic.Int64 // new connections that were served
	echoes atomic.Int64
	cut    atomic.Int64 // tunnels that ended when their time was up

	mu   sync.Mutex // guards lost
	lost error      // the first
}

func (r *rolling) first() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *rolling) lose(ctx context.Context, format string, args ...any) {
	if ctx.Err() != nil {
		return // the test ends, and with it what it opened
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = fmt.Errorf(format, args...)
	}
}

// stay is a client that keeps a tunnel, and opens another when it ends.
func (r *rolling) stay(ctx context.Context) {
	for ctx.Err() == nil {
		tun, err := r.client.connect(ctx, r.lb.addr, r.echo)
		if err != nil {
			r.lose(ctx, "a client that stays, connecting: %w", err)
			return
		}
		r.open.Add(1)
		err = r.talk(ctx, tun)
		r.open.Add(-1)
		_ = tun.Close() // it has ended, or the test does
		if err == nil {
			return
		}
		if entry, ok := r.lb.mayEnd(tun.LocalAddr()); !ok {
			r.lose(ctx, "a tunnel through %s, before its time: %w", entry, err)
			return
		}
		r.cut.Add(1)
	}
}

// talk uses the tunnel until it ends.
func (r *rolling) talk(ctx context.Context, tun *tunnel) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := tun.echo(setupTime); err != nil {
			return err
		}
		r.echoes.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// come is one new client after the other, each with a connection of its own.
func (r *rolling) come(ctx context.Context) {
	tick := time.NewTicker(rollingEvery)
	defer tick.Stop()
	slots := make(chan struct{}, 100)
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // a slow machine: fewer come
		}
		clients.Go(func() {
			defer func() { <-slots }()
			if err := r.client.tryEcho(ctx, r.lb.addr, r.echo); err != nil {
				r.lose(ctx, "a new connection: %w", err)
				return
			}
			r.fresh.Add(1)
		})
	}
}

// restart ends one entry and starts it again.
func (r *rolling) restart(t *testing.T, m *dev.Mesh, e *backend) {
	t.Helper()
	told := time.Now()
	r.lb.told(e, told.Add(rollingWait+rollingLimit))
	signal(t, e.process, syscall.SIGTERM)
	ends(t, e.process)
	took := time.Since(told)
	if code := e.process.ExitCode(); code != exitOK {
		t.Errorf("%s: exit code %d", e.process.Name, code)
	}
	open, cut := drained(t, e.process)
	t.Logf("%s: the balancer noticed after %v; it ended after %v with %d open, %d cut", e.process.Name, r.lb.noticed(e).Sub(told).Round(time.Millisecond), took.Round(time.Millisecond), open, cut)
	if open == 0 || cut == 0 || took < rollingWait+rollingLimit {
		t.Errorf("%s did not wait for its connections", e.process.Name)
	}
	r.lb.starts(e)
	restart(t, m, e.process)
	eventually(t, patience, "the balancer uses it again", func() error {
		if !r.lb.noticed(e).IsZero() {
			return errors.New("it does not")
		}
		return nil
	})
}

var drainedLine = regexp.MustCompile(`entry drained".* open=(\d+) cut=(\d+)`)

// drained is what an entry says last of its connections.
func drained(t *testing.T, p *dev.Process) (open, cut int) {
	t.Helper()
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	all := drainedLine.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		t.Fatalf("%s does not say how many connections it cut", p.Name)
	}
	last := all[len(all)-1]
	open, _ = strconv.Atoi(string(last[1])) // digits
	cut, _ = strconv.Atoi(string(last[2]))
	return open, cut
}
