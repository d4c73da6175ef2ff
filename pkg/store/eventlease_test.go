package store_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestEventsOfADayAreUnderOneLease(t *testing.T) {
	addr := storetest.Etcd(t)
	a, b := storetest.Open(t, addr), storetest.Open(t, addr)
	tell := func(s *store.Store) {
		t.Helper()
		if _, err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.Event(mesh.Event{Type: mesh.EventTokenUsed}) }); err != nil {
			t.Fatal(err)
		}
	}
	leases := func() map[clientv3.LeaseID]int {
		t.Helper()
		resp, err := a.Client().Get(t.Context(), "/mesh/v1/events/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		out := map[clientv3.LeaseID]int{}
		for _, kv := range resp.Kvs {
			out[clientv3.LeaseID(kv.Lease)]++
		}
		return out
	}
	began := time.Now()
	tell(a)
	tell(b)
	tell(a)
	got := leases()
	if time.Now().UTC().Day() == began.UTC().Day() && len(got) != 1 || got[0] != 0 {
		t.Fatalf("got %v, want one lease", got)
	}
	for id := range got {
		life, err := a.Client().TimeToLive(t.Context(), id)
		if err != nil || life.GrantedTTL != int64(31*24*time.Hour/time.Second) {
			t.Errorf("got %+v, %v", life, err)
		}
		// Whoever ends it takes the events along, and the next has one again.
		if _, err := a.Client().Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := leases(); len(got) != 0 {
		t.Errorf("after the end of the lease: %v", got)
	}
	tell(a)
	tell(b)
	if got := leases(); got[0] != 0 || len(got) == 0 {
		t.Errorf("got %v", got)
	}
}

// BenchmarkEvent is a transaction with one event, under the lease of the day.
func BenchmarkEvent(b *testing.B) {
	s := storetest.New(b)
	for b.Loop() {
		if _, err := s.Update(b.Context(), func(tx *store.Tx) error { return tx.Event(mesh.Event{Type: mesh.EventTokenUsed}) }); err != nil {
			b.Fatal(err)
		}
	}
}
