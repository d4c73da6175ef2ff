// Package entrytest is what an entry's tests need from both sides of it: the
// contract of its Router, run on every Router there is, and ClientHellos good
// and bad.
package entrytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// World is a Router and the state behind it.
type World struct {
	Router       entry.Router
	PutRoute     func(mesh.Route)
	DeleteRoute  func(mesh.ServerName)
	PutTarget    func(mesh.Target)
	DeleteTarget func(id string)
	// Silence makes every source of answers fall silent.
	Silence func()
}

// Router checks what an entry relies on. Names in it are under a.example.net.
func Router(t *testing.T, make func(t *testing.T) World) {
	const name = mesh.ServerName("abcdefgh.a.example.net")
	core := func() mesh.Target {
		c := mesh.Core{ID: mesh.NewCoreID(), State: mesh.CoreReady}
		return mesh.TargetOf(mesh.NewID(), c, "meshctl-relay/1")
	}
	route := func(targets ...mesh.Target) mesh.Route {
		r := mesh.Route{Name: name, Device: mesh.NewDeviceID()}
		for _, c := range targets {
			r.Hops = append(r.Hops, mesh.Hop{Kind: c.Kind, ID: c.ID})
		}
		return r
	}
	t.Run("targets come in the order of the hops, a missing one is left out", func(t *testing.T) {
		w := make(t)
		a, missing, b := core(), core(), core()
		w.PutTarget(b)
		w.PutTarget(a)
		want := route(b, missing, a)
		w.PutRoute(want)
		for range 2 {
			r, targets, err := w.Router.Lookup(t.Context(), name)
			if err != nil || r.Device != want.Device || len(targets) != 2 || targets[0].ID != b.ID || targets[1].ID != a.ID {
				t.Fatalf("Lookup: %+v, %+v, %v", r, targets, err)
			}
		}
	})
	t.Run("a route whose targets are all missing is a route", func(t *testing.T) {
		w := make(t)
		w.PutRoute(route(core()))
		if _, targets, err := w.Router.Lookup(t.Context(), name); err != nil || len(targets) != 0 {
			t.Errorf("Lookup: %+v, %v", targets, err)
		}
	})
	t.Run("a name without a route is not found, also when it had one", func(t *testing.T) {
		w := make(t)
		want(t, w.Router, name, mesh.ErrNotFound)
		w.PutRoute(route(core()))
		want(t, w.Router, name, nil)
		w.DeleteRoute(name)
		want(t, w.Router, name, mesh.ErrNotFound)
	})
	t.Run("changes of a target show", func(t *testing.T) {
		w := make(t)
		a := core()
		w.PutTarget(a)
		w.PutRoute(route(a))
		want(t, w.Router, name, nil)
		a.State = mesh.CoreDraining
		w.PutTarget(a)
		eventually(t, w.Router, name, func(ts []mesh.Target) bool { return len(ts) == 1 && ts[0].State == mesh.CoreDraining })
		w.DeleteTarget(a.ID)
		eventually(t, w.Router, name, func(ts []mesh.Target) bool { return len(ts) == 0 })
	})
	t.Run("in silence known names go on and others are unavailable, in bounded time", func(t *testing.T) {
		w := make(t)
		a := core()
		w.PutTarget(a)
		w.PutRoute(route(a))
		want(t, w.Router, name, nil)
		w.Silence()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, ts, err := w.Router.Lookup(ctx, name); err != nil || len(ts) != 1 {
			t.Errorf("a known name: %+v, %v", ts, err)
		}
		want(t, w.Router, "other.a.example.net", mesh.ErrUnavailable)
		if ctx.Err() != nil {
			t.Error("the lookups took over 30 s")
		}
	})
}

func want(t *testing.T, r entry.Router, name mesh.ServerName, kind error) {
	t.Helper()
	if _, _, err := r.Lookup(t.Context(), name); !errors.Is(err, kind) {
		t.Errorf("Lookup(%s): %v, want %v", name, err, kind)
	}
}

func eventually(t *testing.T, r entry.Router, name mesh.ServerName, ok func([]mesh.Target) bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		_, targets, err := r.Lookup(t.Context(), name)
		if err == nil && ok(targets) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("Lookup(%s): %+v, %v after 20 s", name, targets, err)
		}
	}
}
