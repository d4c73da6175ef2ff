package store_test

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/gateway"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestATargetFollowsItsCore(t *testing.T) {
	s := storetest.New(t)
	m := mesh.NewID()
	core := mesh.Core{ID: mesh.NewCoreID(), Name: "c", Cell: mesh.NewCellID(), State: mesh.CoreReady, Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8444")}}
	sync := func(tx *store.Tx) error { return store.SyncTarget(tx, m, core.ID, "relay/2", "relay/1") }
	change(t, s, func(tx *store.Tx) error {
		if err := store.Create(tx, s.Cores, core.ID, core); err != nil {
			return err
		}
		return sync(tx)
	})
	it, err := s.Targets.Get(t.Context(), string(core.ID))
	if want := mesh.TargetOf(m, core, "relay/2", "relay/1"); err != nil || !reflect.DeepEqual(it.Value, want) {
		t.Fatalf("got %+v, %v; want %+v", it.Value, err, want)
	}
	if rev, err := s.Update(t.Context(), sync); err != nil || rev < it.Rev {
		t.Fatal(rev, err)
	}
	if again, err := s.Targets.Get(t.Context(), string(core.ID)); err != nil || again.Rev != it.Rev {
		t.Errorf("got %d, %v: an equal target was written again", again.Rev, err)
	}
	other := mesh.NewCoreID()
	if _, err := s.Update(t.Context(), func(tx *store.Tx) error {
		return store.Create(tx, s.Targets, string(other), mesh.Target{ID: string(other)})
	}); err != nil {
		t.Fatal(err)
	}
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Cores, core.ID, func(c *mesh.Core) error { c.State = mesh.CoreRevoked; return nil })
	})
	if n, err := s.ReconcileTargets(t.Context(), m, "relay/2", "relay/1"); n != 2 || err != nil {
		t.Errorf("got %d, %v; want the stray one and the changed one", n, err)
	}
	all, _, err := s.Targets.List(t.Context())
	if len(all) != 1 || all[string(core.ID)].State != mesh.CoreRevoked || err != nil {
		t.Errorf("got %v, %v", all, err)
	}
	change(t, s, func(tx *store.Tx) error {
		if err := store.Delete(tx, s.Cores, core.ID); err != nil {
			return err
		}
		return sync(tx)
	})
	if _, err := s.Targets.Get(t.Context(), string(core.ID)); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestTheGatewayLooksWhereTheStoreWrites(t *testing.T) {
	if got, want := gateway.RouteKey("a.b"), store.RouteKey("a.b"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := gateway.TargetKey("core-a"), store.TargetKey("core-a"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
