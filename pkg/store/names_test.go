package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func create[K ~string, V any](t *testing.T, s *store.Store, c *store.Collection[K, V], id K, v V) error {
	t.Helper()
	_, err := s.Change(t.Context(), by, "add", func(tx *store.Tx) error { return store.Create(tx, c, id, v) })
	return err
}

func TestLabelsAreDataAndUniqueAsTheyAreSpelled(t *testing.T) { // F-01
	s := storetest.New(t)
	for _, name := range []string{"Alice", "alice", "a.b", "a/b", "../x", "Иван Петров", "🇩🇪 DE #1", "<b>_*", "a\\x"} {
		m := addMember(t, s, name)
		if got, err := s.Members.Lookup(t.Context(), name); err != nil || got.ID != m.ID {
			t.Errorf("%q: got %+v, %v; want %s", name, got, err, m.ID)
		}
		again := member(name)
		if err := create(t, s, s.Members, again.ID, again); !errors.Is(err, mesh.ErrExists) {
			t.Errorf("%q twice: got %v, want exists", name, err)
		}
	}
	for _, name := range []string{"", " x", "a\nb", string(mesh.NewCoreID()), strings.Repeat("x", 101), "\xff"} {
		m := member(name)
		if err := create(t, s, s.Members, m.ID, m); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: got %v, want invalid", name, err)
		}
	}
}

func TestALabelIsFreeAgainAfterARenameOrADeletion(t *testing.T) {
	s := storetest.New(t)
	a := addMember(t, s, "Alice")
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, a.ID, func(m *mesh.Member) error { m.Name = "Alicia"; return nil })
	})
	b := addMember(t, s, "Alice")
	_, err := s.Change(t.Context(), by, "rename", func(tx *store.Tx) error {
		return store.Update(tx, s.Members, a.ID, func(m *mesh.Member) error { m.Name = "Alice"; return nil })
	})
	if !errors.Is(err, mesh.ErrExists) {
		t.Errorf("got %v, want exists", err)
	}
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, b.ID) })
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, a.ID, func(m *mesh.Member) error { m.Name = "Alice"; return nil })
	})
	if got, err := s.Members.Lookup(t.Context(), "Alice"); err != nil || got.ID != a.ID {
		t.Errorf("got %+v, %v; want %s", got, err, a.ID)
	}
}

func TestTwoMayHaveADeviceOfTheSameName(t *testing.T) {
	s := storetest.New(t)
	a, b := addMember(t, s, "Alice"), addMember(t, s, "team/Bob")
	dev := func(m mesh.Member) mesh.Device {
		return mesh.Device{ID: mesh.NewDeviceID(), Member: m.ID, Name: "my/phone", State: mesh.DeviceActive}
	}
	of := map[string]mesh.Device{"Alice/my/phone": dev(a), "team/Bob/my/phone": dev(b)}
	for ref, d := range of {
		if err := create(t, s, s.Devices, d.ID, d); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Devices.Lookup(t.Context(), ref); err != nil || got.ID != d.ID {
			t.Errorf("%s: got %+v, %v; want %s", ref, got, err, d.ID)
		}
	}
	if _, err := s.Devices.Lookup(t.Context(), "my/phone"); !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
		t.Errorf("got %v, want invalid with a hint", err)
	}
	if got, err := s.Devices.Lookup(t.Context(), string(a.ID)+"/my/phone"); err != nil || got.Member != a.ID {
		t.Errorf("got %+v, %v", got, err)
	}
	twice := dev(a)
	if err := create(t, s, s.Devices, twice.ID, twice); !errors.Is(err, mesh.ErrExists) {
		t.Errorf("got %v, want exists", err)
	}
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Devices, of["Alice/my/phone"].ID) })
	if got, err := s.Devices.Lookup(t.Context(), "my/phone"); err != nil || got.Member != b.ID {
		t.Errorf("got %+v, %v; want the only one left", got, err)
	}
}

// Names may hold slashes. What can be read in two ways is asked about, or the
// name of somebody's device would divert what is meant for another's.
func TestADeviceIsNotGuessed(t *testing.T) {
	s := storetest.New(t)
	add := func(m mesh.Member, name string) mesh.Device {
		d := mesh.Device{ID: mesh.NewDeviceID(), Member: m.ID, Name: name, State: mesh.DeviceActive}
		if err := create(t, s, s.Devices, d.ID, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	alice, bob, slash := addMember(t, s, "Alice"), addMember(t, s, "Bob"), addMember(t, s, "Alice/my")
	laptop := add(alice, "laptop")
	add(alice, "my/phone")
	add(slash, "phone")
	if got, err := s.Devices.Lookup(t.Context(), "Alice/laptop"); err != nil || got.ID != laptop.ID {
		t.Errorf("got %+v, %v", got, err)
	}
	posing := add(bob, "Alice/laptop")
	for _, ref := range []string{"Alice/laptop", "Alice/my/phone"} {
		if got, err := s.Devices.Lookup(t.Context(), ref); !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
			t.Errorf("%s: got %+v, %v; want invalid with a hint", ref, got, err)
		}
	}
	for ref, want := range map[string]mesh.DeviceID{"Bob/Alice/laptop": posing.ID, string(alice.ID) + "/laptop": laptop.ID} {
		if got, err := s.Devices.Lookup(t.Context(), ref); err != nil || got.ID != want {
			t.Errorf("%s: got %+v, %v; want %s", ref, got, err, want)
		}
	}
}

func TestSuffixesOfCellsDoNotOverlap(t *testing.T) {
	s := storetest.New(t)
	cell := func(name, suffix string) mesh.Cell {
		return mesh.Cell{ID: mesh.NewCellID(), Name: name, Suffix: mesh.ServerName(suffix), State: mesh.CellActive}
	}
	first := cell("first", "a.example.net")
	if err := create(t, s, s.Cells, first.ID, first); err != nil {
		t.Fatal(err)
	}
	for suffix, want := range map[string]error{
		"a.example.net": mesh.ErrExists, "x.a.example.net": mesh.ErrExists, "example.net": mesh.ErrExists,
		"A.example.org": mesh.ErrInvalid, "net.": mesh.ErrInvalid, "": mesh.ErrInvalid, "10.0.0.1": mesh.ErrInvalid,
		"ba.example.net": nil, "b.example.net": nil,
	} {
		c := cell("cell of "+suffix, suffix)
		if suffix == "" {
			c.Name = "none"
		}
		if err := create(t, s, s.Cells, c.ID, c); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", suffix, err, want)
		}
	}
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Cells, first.ID, func(c *mesh.Cell) error { c.State = mesh.CellCompromised; return nil })
	})
}

func TestALookupOfNothingNamesWhatIsLikeIt(t *testing.T) {
	s := storetest.New(t)
	carol := addMember(t, s, "Carol")
	for _, n := range []string{"Alice", "alina", "Bob"} {
		addMember(t, s, n)
	}
	for ref, hint := range map[string]string{"alise": `"Alice"`, "BOB": `"Bob"`, "zzzzzz": "", strings.Repeat("x", 5000): "", "": ""} {
		_, err := s.Members.Lookup(t.Context(), ref)
		if !errors.Is(err, mesh.ErrNotFound) || (hint == "") != (mesh.Hint(err) == "") || !strings.Contains(mesh.Hint(err), hint) || len(err.Error()) > 300 {
			t.Errorf("%.20s: got %v, hint %q; want %q", ref, err, mesh.Hint(err), hint)
		}
	}
	phone := mesh.Device{ID: mesh.NewDeviceID(), Member: carol.ID, Name: "phone", State: mesh.DeviceActive}
	if err := create(t, s, s.Devices, phone.ID, phone); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Devices.Lookup(t.Context(), "carol/phone"); !errors.Is(err, mesh.ErrNotFound) || !strings.Contains(mesh.Hint(err), `"phone"`) {
		t.Errorf("got %v, hint %q for a device whose member is written otherwise", err, mesh.Hint(err))
	}
	if _, err := s.Members.Lookup(t.Context(), string(mesh.NewMemberID())); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	if _, err := s.Members.Lookup(t.Context(), string(mesh.NewCoreID())); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found for an id of another kind", err)
	}
}
