package store_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const serviceName = mesh.ServerName("sub.example.org")

func (w *world) setService(n mesh.ServerName) error {
	w.t.Helper()
	_, err := w.s.Change(w.t.Context(), store.By{Actor: "test"}, "test", func(tx *store.Tx) error {
		err := store.Update(tx, w.s.Config, store.ConfigKey, func(c *mesh.Config) error { c.Subscription.Name = n; return nil })
		if errors.Is(err, mesh.ErrNotFound) {
			c := mesh.DefaultConfig()
			c.Subscription.Name = n
			return store.Create(tx, w.s.Config, store.ConfigKey, c)
		}
		return err
	})
	return err
}

func (w *world) addServer(state mesh.ServerState) mesh.Server {
	w.t.Helper()
	v := mesh.Server{ID: mesh.NewServerID(), Name: string(mesh.NewServerID())[7:], State: state}
	w.must(func(tx *store.Tx) error { return store.Create(tx, w.s.Servers, v.ID, v) })
	return v
}

// service has the route made, as the leader does.
func (w *world) service(at ...mesh.Target) bool {
	w.t.Helper()
	found := map[mesh.ServerID]mesh.Target{}
	for _, t := range at {
		found[mesh.ServerID(t.ID)] = t
	}
	var held []mesh.ServerName
	for n, r := range w.routes() {
		if r.OfService() {
			held = append(held, n)
		}
	}
	changed, err := w.s.ReconcileService(w.t.Context(), held, found)
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

func (w *world) targets() map[string]mesh.Target {
	w.t.Helper()
	all, _, err := w.s.Targets.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func TestTheSubscriptionServiceHasARouteToTheServers(t *testing.T) {
	w := newWorld(t)
	m := mesh.NewID()
	a, b := w.addServer(mesh.ServerMember), w.addServer(mesh.ServerMember)
	w.addServer(mesh.ServerJoining)
	at := func(v mesh.Server, addr string) mesh.Target {
		return mesh.ServerTarget(m, v, []netip.AddrPort{netip.MustParseAddrPort(addr)}, "relay/1")
	}
	if w.service(at(a, "192.0.2.1:8443")); len(w.routes())+len(w.targets()) != 0 {
		t.Fatalf("without a name: routes %v, targets %v", w.routes(), w.targets())
	}
	if err := w.setService(serviceName); err != nil {
		t.Fatal(err)
	}
	w.service(at(a, "192.0.2.1:8443")) // the other cannot be found now
	want := []mesh.Hop{{Kind: mesh.HopMgmt, ID: string(min(a.ID, b.ID))}, {Kind: mesh.HopMgmt, ID: string(max(a.ID, b.ID))}}
	if r := w.routes()[serviceName]; !r.OfService() || !slices.Equal(r.Hops, want) {
		t.Errorf("route %+v, want hops %v", r, want)
	}
	if got := w.targets(); len(got) != 1 || got[string(a.ID)].Kind != mesh.HopMgmt {
		t.Errorf("targets %v", got)
	}
	w.service(at(b, "192.0.2.2:8443"))
	if got := w.targets(); len(got) != 2 || got[string(a.ID)].Addresses[0].String() != "192.0.2.1:8443" {
		t.Errorf("targets %v: one that cannot be found keeps its address", got)
	}
	if w.service(at(a, "192.0.2.1:8443"), at(b, "192.0.2.2:8443")) {
		t.Error("written again although nothing changed")
	}

	// Neither reconciler takes it for a stray.
	w.reconcile()
	if _, err := w.s.ReconcileTargets(t.Context(), m, "relay/1"); err != nil || len(w.targets()) != 2 || len(w.routes()) != 1 {
		t.Errorf("%v: routes %v, targets %v", err, w.routes(), w.targets())
	}

	w.must(func(tx *store.Tx) error {
		return store.Update(tx, w.s.Servers, a.ID, func(v *mesh.Server) error { v.State = mesh.ServerRemoved; return nil })
	})
	w.service(at(b, "192.0.2.3:8443"))
	if got := w.targets(); len(got) != 1 || got[string(b.ID)].Addresses[0].String() != "192.0.2.3:8443" || len(w.routes()[serviceName].Hops) != 1 {
		t.Errorf("after a removal: targets %v, routes %v", got, w.routes())
	}
	if err := w.setService("news.example.org"); err != nil {
		t.Fatal(err)
	}
	if w.service(); len(w.routes()) != 1 || !w.routes()["news.example.org"].OfService() {
		t.Errorf("after another name: routes %v", w.routes())
	}
	if err := w.setService(""); err != nil {
		t.Fatal(err)
	}
	if w.service(); len(w.routes())+len(w.targets()) != 0 {
		t.Errorf("without a name again: routes %v, targets %v", w.routes(), w.targets())
	}
}

func TestNoCellAndNoDeviceHasTheNameOfTheService(t *testing.T) {
	w := newWorld(t)
	for _, n := range []mesh.ServerName{"c0.example.net", "sub.c1.example.net", "example.net"} {
		if err := w.setService(n); !errors.Is(err, mesh.ErrExists) {
			t.Errorf("service %s: got %v", n, err)
		}
	}
	if err := w.setService(serviceName); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []mesh.ServerName{serviceName, "a." + serviceName, "example.org"} {
		c := mesh.Cell{ID: mesh.NewCellID(), Name: "x", Suffix: suffix, State: mesh.CellActive}
		_, err := w.s.Change(t.Context(), store.By{Actor: "test"}, "test", func(tx *store.Tx) error { return store.Create(tx, w.s.Cells, c.ID, c) })
		if !errors.Is(err, mesh.ErrExists) {
			t.Errorf("suffix %s: got %v", suffix, err)
		}
	}
}
