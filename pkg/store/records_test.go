package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestACertificateIsRecordedOnce(t *testing.T) {
	s := storetest.New(t)
	rec := mesh.CertRecord{Serial: "12345678901234567890", Node: "core/core-a", Issued: time.Now()}
	for range 2 { // the same again does nothing
		if err := s.PutCert(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.GetCert(t.Context(), rec.Serial)
	if err != nil || got.Node != rec.Node || !got.Issued.Equal(rec.Issued) {
		t.Errorf("got %+v, %v; want %+v", got, err, rec)
	}
	rec.Node = "core/core-b"
	if err := s.PutCert(t.Context(), rec); !errors.Is(err, mesh.ErrExists) {
		t.Errorf("got %v, want exists", err)
	}
	if _, err := s.GetCert(t.Context(), "1"); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestARevocationRefusesWhatItCovers(t *testing.T) {
	s := storetest.New(t)
	at := time.Now()
	for i, r := range []mesh.Revocation{{Serial: "7"}, {Node: "core/a", IssuedBefore: at}} {
		r.ID = fmt.Sprint(i)
		change(t, s, func(tx *store.Tx) error {
			return store.Create(tx, s.Revocations, r.ID, mesh.SignedRevocation{Record: r})
		})
	}
	for _, c := range []struct {
		node, serial string
		issued       time.Time
		want         bool
	}{
		{"core/b", "7", at, true}, {"core/b", "8", at, false},
		{"core/a", "8", at.Add(-time.Second), true}, {"core/a", "8", at.Add(time.Second), false},
	} {
		if got, err := s.IsRevoked(t.Context(), c.node, c.serial, c.issued); got != c.want || err != nil {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
}

func TestOfManyOneUsesAKey(t *testing.T) { // C-01
	addr := storetest.Etcd(t)
	servers := []*store.Store{storetest.Open(t, addr), storetest.Open(t, addr), storetest.Open(t, addr)}
	for round := range 5 {
		var wg sync.WaitGroup
		var first atomic.Int64
		for i := range 9 {
			wg.Go(func() {
				ok, err := servers[i%3].UseOnce(t.Context(), fmt.Sprint("key/", round))
				if err != nil {
					t.Error(err)
				}
				if ok {
					first.Add(1)
				}
			})
		}
		wg.Wait()
		if first.Load() != 1 {
			t.Fatalf("round %d: %d were first", round, first.Load())
		}
	}
}

// runAlive runs a, and returns how to end it.
func runAlive(t *testing.T, a *store.Alive) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func aliveIs(t *testing.T, s *store.Store, want map[string]mesh.ServerID) {
	t.Helper()
	var got map[string]mesh.ServerID
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		var err error
		if got, err = s.AliveNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if maps.Equal(got, want) {
			return
		}
		<-tick.C
	}
	t.Fatalf("got %v, want %v", got, want)
}

func TestNodesAreAliveUnderTheLeaseOfTheirServer(t *testing.T) { // D-03
	s := storetest.New(t)
	a, b := &store.Alive{Store: s, Server: "mgmt-a"}, &store.Alive{Store: s, Server: "mgmt-b"}
	a.Set("core/x")
	stop := runAlive(t, a)
	runAlive(t, b)
	a.Set("core/y")
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-a", "core/y": "mgmt-a"})
	b.Set("core/x")
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-b", "core/y": "mgmt-a"})
	a.Clear("core/x") // it is b's now
	a.Clear("core/y")
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-b"})
	a.Set("core/y")
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-b", "core/y": "mgmt-a"})
	stop()
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-b"})
}

// A store without space refuses every lease: trying again must not fill the log
// and etcd's queue.
func TestTriesToHaveALeaseBecomeSeldom(t *testing.T) {
	was := time.Duration(0)
	for n := range 100 {
		d := store.LeaseDelay(n, 10*time.Second)
		if d < was || d <= 0 {
			t.Errorf("try %d after %v, the one before after %v", n+1, d, was)
		}
		was = d
	}
	if first := store.LeaseDelay(0, 10*time.Second); first > 100*time.Millisecond || was != 5*time.Second {
		t.Errorf("from %v to %v", first, was)
	}
}

func TestALostLeaseIsTakenAgain(t *testing.T) {
	s := storetest.New(t)
	a := &store.Alive{Store: s, Server: "mgmt-a", TTL: 6 * time.Second} // it must not end by itself
	a.Set("core/x")
	runAlive(t, a)
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-a"})
	leases, err := s.Client().Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := s.Client().Revoke(t.Context(), clientv3.LeaseID(leases.Leases[0].ID)); err != nil {
		t.Fatal(err)
	}
	aliveIs(t, s, map[string]mesh.ServerID{"core/x": "mgmt-a"})
	again, err := s.Client().Leases(t.Context())
	if err != nil || len(again.Leases) != 1 || again.Leases[0].ID == leases.Leases[0].ID {
		t.Errorf("got %v, %v; want another lease than %v", again.Leases, err, leases.Leases)
	}
}

func TestOldAndSupernumeraryRecordsAreTrimmed(t *testing.T) {
	s := storetest.New(t)
	now := time.Now().UTC()
	event := func(age time.Duration) {
		if _, err := s.Update(t.Context(), func(tx *store.Tx) error {
			return tx.Event(mesh.Event{Time: now.Add(-age), Type: mesh.EventTokenUsed})
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		event(time.Duration(i) * time.Hour)
	}
	for i, until := range []time.Time{now.Add(-time.Hour), now.Add(time.Hour), {}} {
		change(t, s, func(tx *store.Tx) error {
			r := mesh.Revocation{ID: fmt.Sprint(i), Serial: "7", Until: until}
			return store.Create(tx, s.Revocations, r.ID, mesh.SignedRevocation{Record: r})
		})
	}
	if _, err := s.UseOnce(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	n, err := s.Trim(t.Context(), store.TrimPolicy{EventAge: 7*time.Hour + time.Minute, EventNumber: 3}, now)
	if err != nil {
		t.Fatal(err)
	}
	events, _, _ := s.Events.Latest(t.Context(), "", 0)
	revs, _, _ := s.Revocations.List(t.Context())
	// Two are too old, five too many; one revocation has ended.
	if n != 2+5+1 || len(events) != 3 || len(revs) != 2 {
		t.Errorf("removed %d; left %d events, %d revocations", n, len(events), len(revs))
	}
	for i, e := range events {
		if !e.Value.Time.Equal(now.Add(-time.Duration(i) * time.Hour)) {
			t.Errorf("event %d is of %v", i, e.Value.Time)
		}
	}
	if n, err := s.Trim(t.Context(), store.DefaultTrim(), now.Add(60*24*time.Hour)); n != 3+1+1 || err != nil {
		t.Errorf("two months later removed %d, %v; want the events, a revocation, and what was used", n, err)
	}
}

func TestTheNewestComeFirst(t *testing.T) {
	s := storetest.New(t)
	now := time.Now().UTC()
	var want []string
	for i := range 25 {
		// From minutes to years ago.
		at := now.Add(-time.Minute << i)
		id := store.NewTimeID(at)
		want = append(want, id)
		if _, err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.Event(mesh.Event{ID: id, Time: at}) }); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	before := ""
	for {
		items, next, err := s.Events.Latest(t.Context(), before, 4)
		if err != nil || len(items) > 4 {
			t.Fatal(len(items), err)
		}
		for _, it := range items {
			got = append(got, it.Key)
		}
		if before = next; before == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
