package linear

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// writer makes idempotent changes, each through one member after the other until
// one acknowledges it, and knows the longest time without.
type writer struct {
	stores [3]*store.Store

	mu    sync.Mutex // guards what follows
	last  time.Time
	worst time.Duration
	n     int64
}

func (w *writer) run(ctx context.Context) error {
	for at := 0; ctx.Err() == nil; {
		w.mu.Lock()
		n := w.n + 1
		w.mu.Unlock()
		err := write(ctx, w.stores[at%3], n)
		switch {
		case err == nil:
			w.note()
			pause(ctx, 10*time.Millisecond)
		case errors.Is(err, mesh.ErrUnavailable), errors.Is(err, context.Canceled):
			at++
			pause(ctx, 10*time.Millisecond) // a refused connection is told at once
		default:
			return err
		}
	}
	return nil
}

// write sets a number, which is the same done twice.
func write(ctx context.Context, s *store.Store, n int64) error {
	const node = "core/writer"
	_, err := s.Update(ctx, func(tx *store.Tx) error {
		err := store.Update(tx, s.Status, node, func(v *mesh.NodeStatus) error { v.DevicesRev = n; return nil })
		if errors.Is(err, mesh.ErrNotFound) {
			return store.Create(tx, s.Status, node, mesh.NodeStatus{Node: node, DevicesRev: n})
		}
		return err
	})
	return err
}

func (w *writer) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.worst = max(w.worst, now.Sub(w.last))
	w.last = now
	w.n++
}

// take returns the longest gap since the last call, and the number acknowledged.
func (w *writer) take() (time.Duration, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	worst := max(w.worst, time.Since(w.last))
	w.worst = 0
	return worst, w.n
}

// rounds is how often the leader is killed: MESHCTL_FAILOVERS, or 5.
func rounds(t *testing.T) int {
	t.Helper()
	s := os.Getenv("MESHCTL_FAILOVERS")
	if s == "" {
		return 5
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("MESHCTL_FAILOVERS=%s: want a number from 1: %v", s, err)
	}
	return n
}

func TestWritesGoOnWithinSecondsWhenTheLeaderIsKilled(t *testing.T) {
	c := newCluster(t)
	w := &writer{last: time.Now()}
	for i := range w.stores {
		w.stores[i] = c.open(i, 400*time.Millisecond, 400*time.Millisecond)
		c.caughtUp(w.stores[i])
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	defer stop()
	var gaps []time.Duration
	for range rounds(t) {
		gaps = append(gaps, c.failover(w))
	}
	slices.Sort(gaps)
	worst := gaps[len(gaps)-1]
	t.Logf("%d failovers: longest time without an acknowledged write: worst %v, median %v",
		len(gaps), worst.Round(time.Millisecond), gaps[len(gaps)/2].Round(time.Millisecond))
	if worst >= 15*time.Second {
		t.Errorf("%v without an acknowledged write, want under 15s", worst)
	}
	stop()
	patient := c.open(0, patience, 0)
	it, err := patient.Status.Get(t.Context(), "core/writer")
	if _, n := w.take(); err != nil || it.Value.DevicesRev < n {
		t.Errorf("got %d, %v; want at least the acknowledged %d", it.Value.DevicesRev, err, n)
	}
}

// failover kills the leader, and returns the longest gap until it is back and has
// caught up.
func (c *cluster) failover(w *writer) time.Duration {
	c.t.Helper()
	i := c.leader()
	_, before := w.take()
	c.kill(i)
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		w.mu.Lock()
		n := w.n
		w.mu.Unlock()
		if n > before+5 { // acknowledged by the new leader, not only on its way from the old
			break
		}
		if time.Now().After(end) {
			c.t.Fatal("no write was acknowledged within a minute")
		}
	}
	c.start(i)
	c.await(i)
	c.caughtUp(w.stores[i])
	gap, _ := w.take()
	return gap
}
