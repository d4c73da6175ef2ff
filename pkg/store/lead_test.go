package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// openTerm is a store whose offices last that long.
func openTerm(t *testing.T, addr string, term time.Duration) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://" + addr}, Term: term})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// expire ends the lease of an office, as time does while its holder is paused.
func expire(t *testing.T, s *store.Store, office string) {
	t.Helper()
	resp, err := s.Client().Get(t.Context(), "/mesh/v1/election/"+office)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("office %v, %v", resp, err)
	}
	if _, err := s.Client().Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

// note writes a status, as an effect of leading.
func note(ctx context.Context, s *store.Store, node string, f func()) error {
	_, err := s.Update(ctx, func(tx *store.Tx) error {
		_, err := store.Get(tx, s.Status, node)
		f()
		if errors.Is(err, mesh.ErrNotFound) {
			return store.Create(tx, s.Status, node, mesh.NodeStatus{Node: node})
		}
		if err != nil {
			return err
		}
		return store.Update(tx, s.Status, node, func(n *mesh.NodeStatus) error { n.Boot++; return nil })
	})
	return err
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// lead runs Lead until the test ends, or stop is called.
func lead(t *testing.T, s *store.Store, self mesh.ServerID, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Lead(ctx, "test", self, f) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Lead of %s = %v", self, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestOneLeadsAtATime(t *testing.T) {
	t.Parallel()
	addr := storetest.Etcd(t)
	var mu sync.Mutex
	holders := 0
	leads := make(chan mesh.ServerID, 100)
	stops := map[mesh.ServerID]func(){}
	var s *store.Store
	for i := range 3 {
		self := mesh.ServerID(fmt.Sprint("server-", i))
		s = openTerm(t, addr, time.Minute)
		stops[self] = lead(t, s, self, func(ctx context.Context) error {
			mu.Lock()
			if holders++; holders != 1 {
				t.Errorf("%d lead", holders)
			}
			mu.Unlock()
			leads <- self
			<-ctx.Done()
			mu.Lock()
			holders--
			mu.Unlock()
			return nil
		})
	}
	began := time.Now()
	for range 3 { // who stops gives the office back
		who := <-leads
		if got, err := s.Leader(t.Context(), "test"); err != nil || got != who {
			t.Errorf("Leader = %v, %v; want %s", got, err, who)
		}
		stops[who]()
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("handing over took %v, as if leases had to end", took)
	}
	if _, err := s.Leader(t.Context(), "test"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("Leader = %v, want ErrNotFound", err)
	}
}

// D-03, D-04: a leader that is paused in the middle of its work, and wakes after
// another has taken over, writes nothing.
func TestAPausedLeaderWritesNothing(t *testing.T) {
	t.Parallel()
	addr := storetest.Etcd(t)
	first, second := openTerm(t, addr, time.Minute), openTerm(t, addr, time.Minute)
	inside, wake := make(chan struct{}), make(chan struct{})
	result := make(chan error, 3)
	var once sync.Once
	stop := lead(t, first, "server-1", func(ctx context.Context) error {
		once.Do(func() {
			result <- note(ctx, first, "core/a", func() { close(inside); <-wake })
			<-ctx.Done()
			result <- context.Cause(ctx)
			_, err := first.Trim(context.WithoutCancel(ctx), store.TrimPolicy{EventNumber: 1}, time.Now())
			result <- err
		})
		<-ctx.Done()
		return nil
	})
	within(t, "the first leads", inside)
	for range 3 {
		if _, err := second.Update(t.Context(), func(tx *store.Tx) error { return tx.Event(mesh.Event{Type: "test"}) }); err != nil {
			t.Fatal(err)
		}
	}
	expire(t, second, "test")
	leads := make(chan struct{})
	lead(t, second, "server-2", func(ctx context.Context) error {
		close(leads)
		<-ctx.Done()
		return nil
	})
	within(t, "the second leads", leads)
	close(wake)
	for _, what := range []string{"a transaction", "the cause", "a trim"} {
		if err := <-result; !errors.Is(err, store.ErrDeposed) {
			t.Errorf("%s after the office was lost: %v, want ErrDeposed", what, err)
		}
	}
	if _, err := second.Status.Get(t.Context(), "core/a"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("the paused leader's write: %v", err)
	}
	if events, _, err := second.Events.List(t.Context()); err != nil || len(events) != 3 {
		t.Errorf("%d events, %v; the paused leader trimmed", len(events), err)
	}
	stop()
}

// D-04: however often leaders are paused, each effect is made once.
func TestEachEffectOnce(t *testing.T) {
	t.Parallel()
	const rounds = 25
	addr := storetest.Etcd(t)
	watcher := openTerm(t, addr, time.Minute)
	inside, wake := make(chan int), make(chan struct{}, 2*rounds)
	made := make(chan struct{}, 2*rounds)
	for i := range 2 {
		s := openTerm(t, addr, time.Minute)
		lead(t, s, mesh.ServerID(fmt.Sprint("server-", i)), func(ctx context.Context) error {
			for ctx.Err() == nil {
				err := note(ctx, s, "core/a", func() {
					select {
					case inside <- i:
						<-wake
					case <-ctx.Done():
					}
				})
				if err == nil && ctx.Err() == nil {
					made <- struct{}{}
				}
			}
			return nil
		})
	}
	refused := 0
	for n := range rounds {
		who := <-inside
		if n%2 == 0 {
			expire(t, watcher, "test")
			if next := <-inside; next == who {
				t.Fatalf("%d leads again before it has noticed", who)
			}
			refused++
			wake <- struct{}{}
		}
		wake <- struct{}{}
		within(t, "an effect", made)
	}
	st, err := watcher.Status.Get(t.Context(), "core/a")
	if err != nil || st.Value.Boot != rounds-1 {
		t.Errorf("%d effects and %v after %d rounds, %d of them with a paused leader", st.Value.Boot+1, err, rounds, refused)
	}
}

// While etcd is away a leader stops in time by its own clock, and another that
// reaches etcd takes over.
func TestACutOffLeaderStops(t *testing.T) {
	t.Parallel()
	addr := storetest.Etcd(t)
	link := storetest.NewLink(t, addr)
	far, near := openTerm(t, link.Addr(), 2*time.Second), openTerm(t, addr, 2*time.Second)
	leads, ended := make(chan struct{}, 10), make(chan error, 10)
	stop := lead(t, far, "server-1", func(ctx context.Context) error {
		leads <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})
	within(t, "it leads", leads)
	link.Freeze()
	began := time.Now()
	if err := <-ended; !errors.Is(err, store.ErrDeposed) {
		t.Errorf("it ended with %v, want ErrDeposed", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it stopped after %v, the lease is 2 s", took)
	}
	taken := make(chan struct{})
	lead(t, near, "server-2", func(ctx context.Context) error { close(taken); <-ctx.Done(); return nil })
	within(t, "another takes over", taken)
	t.Logf("taken over in %v", time.Since(began))
	// Lead obeys its context though etcd does not answer.
	began = time.Now()
	stop()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it ended %v after its context", took)
	}
	link.Heal()
}

// A server that was killed and comes back does not wait for its own lease.
func TestARestartedServerLeadsAtOnce(t *testing.T) {
	t.Parallel()
	addr := storetest.Etcd(t)
	link := storetest.NewLink(t, addr)
	killed, back := openTerm(t, link.Addr(), time.Hour), openTerm(t, addr, time.Hour)
	leads := make(chan struct{}, 1)
	stop := lead(t, killed, "server-1", func(ctx context.Context) error { leads <- struct{}{}; <-ctx.Done(); return nil })
	within(t, "it leads", leads)
	link.Cut()
	stop()
	lead(t, back, "server-1", func(ctx context.Context) error { leads <- struct{}{}; <-ctx.Done(); return nil })
	within(t, "it leads again", leads)
}

func TestLeadReturnsWhatItsWorkReturns(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	boom := errors.New("boom")
	for _, want := range []error{boom, nil} {
		if err := s.Lead(t.Context(), "test", "server-1", func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("Lead = %v, want %v", err, want)
		}
	}
	if err := s.Lead(t.Context(), "no such/office", "server-1", nil); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("Lead = %v, want ErrInvalid", err)
	}
}
