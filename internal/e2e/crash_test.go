package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// adds is a stream of additions, and what became of them.
type adds struct {
	mu        sync.Mutex                              // guards the maps
	attempted map[string]struct{}                     // kind/name
	acked     map[string]string                       // kind/name → id
	add       map[string]func(string) (string, error) // by kind; returns the id
}

func newAdds(ctx context.Context, m *dev.Mesh) *adds {
	return &adds{attempted: map[string]struct{}{}, acked: map[string]string{}, add: map[string]func(string) (string, error){
		"member": func(name string) (string, error) {
			v, err := admin.MemberAdd.Call(ctx, m.Admin, admin.MemberAddRequest{Name: name})
			return string(v.ID), err
		},
		"device": func(name string) (string, error) {
			v, err := admin.DeviceAdd.Call(ctx, m.Admin, admin.DeviceAddRequest{Member: dev.MemberName, Name: name, Cell: dev.CellName})
			return string(v.ID), err
		},
	}}
}

// stream adds things of one kind until the server answers no more.
func (a *adds) stream(kind, prefix string) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		a.mu.Lock()
		a.attempted[kind+"/"+name] = struct{}{}
		a.mu.Unlock()
		id, err := a.add[kind](name)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.acked[kind+"/"+name] = id
		a.mu.Unlock()
	}
}

func TestServerKilledDuringChanges(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1})
	if err := os.Remove(filepath.Join(m.Dir, "passphrase")); err != nil { // resuming needs none
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	a := newAdds(ctx, m)
	for round := range 4 {
		moment := time.Duration(rand.Int64N(int64(250 * time.Millisecond)))
		var wg sync.WaitGroup
		for i, kind := range []string{"member", "member", "device", "device"} {
			wg.Go(func() { a.stream(kind, fmt.Sprintf("%s-%d-%d", kind, round, i)) })
		}
		<-time.After(moment)
		kill(t, m.Mgmt)
		wg.Wait()
		restart(t, m, m.Mgmt)
		m.Admin.ResetConnectBackoff()
		t.Logf("round %d: killed after %v, %d of %d acknowledged so far", round, moment, len(a.acked), len(a.attempted))
		a.check(t, m)
	}
	a.again(t, m)
}

// check wants what was acknowledged to be there, and all that is there whole.
func (a *adds) check(t *testing.T, m *dev.Mesh) {
	t.Helper()
	there := map[string]string{}
	note := func(kind, name, id string) {
		if _, twice := there[kind+"/"+name]; twice {
			t.Errorf("%s %s is there twice", kind, name)
		}
		there[kind+"/"+name] = id
	}
	for _, v := range all(t, m, admin.MemberList, func(p admin.Page) admin.Page { return p }) {
		note("member", v.Name, string(v.ID))
	}
	for _, v := range all(t, m, admin.DeviceList, func(p admin.Page) admin.DeviceListRequest { return admin.DeviceListRequest{Page: p} }) {
		note("device", v.Name, string(v.ID))
	}
	recorded := map[string]int{}
	for _, r := range all(t, m, admin.AuditList, func(p admin.Page) admin.AuditListRequest { return admin.AuditListRequest{Page: p} }) {
		if r.Action == "member.add" || r.Action == "device.add" {
			for _, c := range r.Changes {
				recorded[c.Object]++
			}
		}
	}
	for key, id := range a.acked {
		if there[key] != id {
			t.Errorf("%s was acknowledged as %s and is %q", key, id, there[key])
		}
	}
	for key := range a.attempted {
		a.whole(t, m, key, there[key], recorded)
	}
	eventually(t, patience, "a route for each device", func() error { return routed(t, m) })
}

// whole wants the name of a thing to lead to it, and one record of its making;
// of an absent thing neither.
func (a *adds) whole(t *testing.T, m *dev.Mesh, key, id string, recorded map[string]int) {
	t.Helper()
	kind, name := filepath.Split(key)
	var got string
	var err error
	if kind == "member/" {
		v, e := tryCall(t, m, admin.MemberGet, admin.Ref{Ref: name})
		got, err = string(v.ID), e
	} else {
		v, e := tryCall(t, m, admin.DeviceGet, admin.Ref{Ref: name})
		got, err = string(v.ID), e
	}
	if id == "" {
		if mesh.Kind(err) != mesh.ErrNotFound {
			t.Errorf("%s is absent, yet its name leads to %q, %v", key, got, err)
		}
		return
	}
	if err != nil || got != id {
		t.Errorf("the name of %s leads to %q, %v, want %s", key, got, err, id)
	}
	if n := recorded[kind+id]; n != 1 {
		t.Errorf("%s has %d records of its making", key, n)
	}
}

// routed is an error while a device has no route.
func routed(t *testing.T, m *dev.Mesh) error {
	for _, d := range all(t, m, admin.DeviceList, func(p admin.Page) admin.DeviceListRequest { return admin.DeviceListRequest{Page: p} }) {
		if len(d.Via) == 0 {
			return fmt.Errorf("device %s waits: %s", d.Name, d.Waiting)
		}
		routes, err := tryCall(t, m, admin.RouteGet, admin.Ref{Ref: string(d.ID)})
		if err != nil || len(routes.Items) != 1 || routes.Items[0].Name != d.ServerNames[0] {
			return fmt.Errorf("device %s has the routes %+v, %w", d.Name, routes.Items, err)
		}
	}
	return nil
}

// again adds what is absent: nothing of it may be in the way.
func (a *adds) again(t *testing.T, m *dev.Mesh) {
	t.Helper()
	for key := range a.attempted {
		kind, name := filepath.Split(key)
		if _, done := a.acked[key]; done {
			continue
		}
		if _, err := a.add[filepath.Clean(kind)](name); err != nil && mesh.Kind(err) != mesh.ErrExists {
			t.Errorf("adding %s again: %v", key, err)
		}
	}
}

// all reads every page of a list.
func all[Req, T any](t *testing.T, m *dev.Mesh, method admin.Method[Req, admin.List[T]], req func(admin.Page) Req) []T {
	t.Helper()
	var out []T
	page := admin.Page{Limit: 500}
	for {
		l := call(t, m, method, req(page))
		out = append(out, l.Items...)
		if l.Next == "" {
			return out
		}
		page.After = l.Next
	}
}
