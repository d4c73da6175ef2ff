package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestAnyStateIsTheSameAfterExportAndImport(t *testing.T) {
	for seed := range uint64(6) {
		a, b := storetest.New(t), storetest.New(t)
		state := randomState(t, seed, 1+int(seed)*3)
		all := 0
		if err := a.Import(t.Context(), state, func(done, of int) { all = of }); err != nil || all != len(state) {
			t.Fatal(all, err)
		}
		first := export(t, a)
		if got, want := meaning(t, first), meaning(t, state); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %v\nwant %v", seed, got, want)
		}
		if err := b.Import(t.Context(), first, nil); err != nil {
			t.Fatal(err)
		}
		again := export(t, b)
		for i := range again {
			first[i].Rev, again[i].Rev = 0, 0
		}
		if !reflect.DeepEqual(again, first) {
			t.Fatalf("seed %d: a second export differs", seed)
		}
		for i := range first { // and the label is indexed
			if o := first[i]; o.Folder == "cores" {
				name := plain(t, o.Value)["name"].(string)
				if c, err := b.Cores.Lookup(t.Context(), name); err != nil || string(c.ID) != o.ID {
					t.Fatalf("%s: %v, %v", name, c.ID, err)
				}
				break
			}
		}
	}
}

func TestAnImportIndexesLabels(t *testing.T) {
	a, b := newWorld(t), storetest.New(t)
	device := a.addDevice(0, 0)
	if err := b.Import(t.Context(), export(t, a.s), nil); err != nil {
		t.Fatal(err)
	}
	d, err := b.Devices.Lookup(t.Context(), "m0/d1")
	if err != nil || d.ID != device {
		t.Fatal(d, err)
	}
	_, err = b.Change(t.Context(), by, "member add", func(tx *store.Tx) error {
		id := mesh.NewMemberID()
		return store.Create(tx, b.Members, id, mesh.Member{ID: id, Name: "m0"})
	})
	if !errors.Is(err, mesh.ErrExists) {
		t.Errorf("the name of an imported member was given again: %v", err)
	}
}

// G-06: everything is checked before the first write.
func TestAnImportWithFaultsWritesNothing(t *testing.T) {
	good := func() []store.Raw { return randomState(t, 1, 2) }
	with := func(folder, id, value string) []store.Raw {
		return append(good(), store.Raw{Folder: folder, ID: id, Value: []byte(value)})
	}
	s := storetest.New(t)
	for name, c := range map[string]struct {
		state []store.Raw
		want  string
	}{
		"cut short":              {with("members", "m", `{"id":"m","name":"x"`), "members/m"},
		"of another id":          {with("members", "m", `{"id":"n","name":"x"}`), "members/m"},
		"a list":                 {with("members", "m", `[]`), "members/m"},
		"of a later program":     {with("members", "m", `{"schema":9,"minReader":9,"id":"m","name":"x"}`), "schema 9"},
		"twice":                  {append(good(), good()[0]), "two of it"},
		"a name twice":           {with("members", "m", `{"id":"m","name":"Name ü 1"}`), "is that of members/"},
		"without a name":         {with("members", "m", `{"id":"m"}`), "members/m"},
		"of no kind":             {with("routes", "a.b", `{}`), "routes/a.b"},
		"with a strange id":      {with("members", "../x", `{"id":"../x","name":"x"}`), "../x"},
		"with a suffix too near": {with("cells", "m", `{"id":"m","name":"x","suffix":"a.c1.example.net"}`), "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Import(t.Context(), c.state, nil)
			if !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want one that names %s", err, c.want)
			}
		})
	}
	many := good()
	for i := range 100 {
		many = append(many, store.Raw{Folder: "members", ID: fmt.Sprint("m", i), Value: []byte(`{`)})
	}
	if err := s.Import(t.Context(), many, nil); !strings.Contains(fmt.Sprint(err), "and 80 more") {
		t.Errorf("got %v", err)
	}
	if resp, err := s.Client().Get(t.Context(), "", clientv3.WithPrefix()); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("%d keys were written, %v", len(resp.Kvs), err)
	}
}

func TestAnImportNeedsAnEmptyStore(t *testing.T) {
	s := storetest.New(t)
	addMember(t, s, "Alice")
	err := s.Import(t.Context(), randomState(t, 1, 1), nil)
	if !errors.Is(err, mesh.ErrConflict) || mesh.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	if got := export(t, s); len(got) != 1 {
		t.Errorf("%d objects", len(got))
	}
}

// failing is etcd that ends after some transactions.
type failing struct {
	clientv3.KV
	left *int
}

func (f failing) Txn(ctx context.Context) clientv3.Txn {
	if *f.left--; *f.left < 0 {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return f.KV.Txn(ctx)
	}
	return f.KV.Txn(ctx)
}

func TestAnImportThatWasCutOffIsKnownAndGoesOn(t *testing.T) {
	state := randomState(t, 3, 40)
	for _, after := range []int{1, 2, 4} {
		addr := storetest.Etcd(t)
		dying, s := storetest.Open(t, addr), storetest.Open(t, addr)
		left := after
		dying.WrapKV(func(kv clientv3.KV) clientv3.KV { return failing{kv, &left} })
		if err := dying.Import(t.Context(), state, nil); err == nil {
			t.Fatal("it ended well")
		}
		if err := s.Whole(t.Context()); !errors.Is(err, mesh.ErrConflict) || mesh.Hint(err) == "" {
			t.Errorf("after %d transactions: %v", after, err)
		}
		if _, _, err := s.Export(t.Context(), 0); !errors.Is(err, mesh.ErrConflict) {
			t.Errorf("half a state was exported: %v", err)
		}
		if err := s.Import(t.Context(), state[1:], nil); !errors.Is(err, mesh.ErrConflict) {
			t.Errorf("another state was imported over it: %v", err)
		}
		if err := s.Import(t.Context(), state, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Whole(t.Context()); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(meaning(t, export(t, s)), meaning(t, state)) {
			t.Errorf("after %d transactions: another state", after)
		}
	}
}

func TestRoutesAndTargetsAreDerivedAfterAnImport(t *testing.T) {
	a := newWorld(t)
	for i := range 4 {
		a.addCore(i%2, true)
	}
	for i := range 30 {
		a.addDevice(i%2, i/2%2)
	}
	a.settle()
	want := a.routes()
	b := &world{t: t, s: storetest.New(t), now: a.now, cores: a.cores, built: map[mesh.CoreID]table{}, known: map[mesh.CoreID]table{}}
	if err := b.s.Import(t.Context(), export(t, a.s), nil); err != nil {
		t.Fatal(err)
	}
	// Before any core has come back, routes lead where they did.
	if got := b.routes(); len(want) != 30 || !reflect.DeepEqual(got, want) {
		t.Errorf("got routes %v\nwant %v", got, want)
	}
	if n := b.reconcile(); n != 0 {
		t.Errorf("the reconciler changed %d devices", n)
	}
	b.settle()
	b.checkComplete()
	if got := b.routes(); len(want) != 30 || !reflect.DeepEqual(got, want) {
		t.Errorf("got routes %v\nwant %v", got, want)
	}
	if n, err := b.s.ReconcileTargets(t.Context(), "mesh-a", "relay/1"); n != 4 || err != nil {
		t.Errorf("%d targets, %v", n, err)
	}
}
