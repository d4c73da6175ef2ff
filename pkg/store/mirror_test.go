package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// runMirror runs a mirror until the test ends.
func runMirror[K ~string, V any](t *testing.T, m *store.Mirror[K, V]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := m.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for the mirror to satisfy ok.
func eventually[K ~string, V any](t *testing.T, m *store.Mirror[K, V], what string, ok func(map[K]V) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		changed := m.Changed()
		if ok(m.All()) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not within a minute; has %v", what, m.All())
		}
	}
}

func TestAWatchYieldsEveryChangeInOrder(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	_, rev, err := s.Members.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		change(t, s, func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = fmt.Sprint(i); return nil })
		})
	}
	last := change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) })
	var got strings.Builder
	for ev, err := range s.Members.Watch(t.Context(), rev) {
		if err != nil {
			t.Fatal(err)
		}
		if got.WriteString(ev.Value.Note); ev.Deleted {
			if ev.Key != m.ID || ev.Rev != last {
				t.Errorf("got %+v", ev)
			}
			break
		}
	}
	if got.String() != "012" {
		t.Errorf("got %q, want 012", got.String())
	}
}

func TestAWatchFromBeforeACompactionSaysToListAgain(t *testing.T) {
	s := storetest.New(t)
	first := addMember(t, s, "Alice")
	it, err := s.Members.Get(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	addMember(t, s, "Bob")
	rev := addMemberRev(t, s, "Carol")
	if _, err := s.Client().Compact(t.Context(), int64(rev)); err != nil {
		t.Fatal(err)
	}
	errs := 0
	for _, err := range s.Members.Watch(t.Context(), it.Rev) {
		if errs++; !errors.Is(err, store.ErrCompacted) {
			t.Errorf("got %v, want compacted", err)
		}
	}
	if errs != 1 {
		t.Errorf("got %d errors, want 1", errs)
	}
}

func addMemberRev(t *testing.T, s *store.Store, name string) store.Rev {
	t.Helper()
	it, err := s.Members.Get(t.Context(), addMember(t, s, name).ID)
	if err != nil {
		t.Fatal(err)
	}
	return it.Rev
}

func TestAWatchEndsQuietlyWithItsContext(t *testing.T) {
	s := storetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	for ev, err := range s.Members.Watch(ctx, 0) {
		t.Errorf("got %v, %v", ev, err)
	}
}

func TestAMirrorFollowsTheStore(t *testing.T) {
	s := storetest.New(t)
	a := addMember(t, s, "Alice")
	m := store.NewMirror(s.Members)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := m.Synced(short); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("got %v before it runs, want unavailable", err)
	}
	runMirror(t, m)
	if v, ok := m.Get(a.ID); !ok || v != a {
		t.Fatalf("got %+v, %v", v, ok)
	}
	before := m.All()
	rev := change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, a.ID, func(m *mesh.Member) error { m.Note = "x"; return nil })
	})
	eventually(t, m, "the note", func(all map[mesh.MemberID]mesh.Member) bool { return all[a.ID].Note == "x" })
	if it, ok := m.Item(a.ID); !ok || it.Rev != rev || m.Rev() != rev {
		t.Errorf("got %+v, at %d; want %d", it, m.Rev(), rev)
	}
	if before[a.ID].Note != "" {
		t.Error("a snapshot changed after it was given")
	}
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, a.ID) })
	eventually(t, m, "the deletion", func(all map[mesh.MemberID]mesh.Member) bool { return len(all) == 0 })
}

func TestAMirrorKeepsWhatItHasWhileTheStoreIsAway(t *testing.T) { // D-01
	s, link := storetest.NewLinked(t)
	a := addMember(t, s, "Alice")
	m := store.NewMirror(s.Members)
	m.SetEvery(50 * time.Millisecond) // so that it tries to list while the link is cut
	runMirror(t, m)
	link.Cut()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		<-tick.C
		if _, ok := m.Get(a.ID); !ok {
			t.Fatal("the mirror lost its member with the link")
		}
	}
	link.Heal()
	b := addMember(t, s, "Bob")
	eventually(t, m, "the new member", func(all map[mesh.MemberID]mesh.Member) bool { return len(all) == 2 && all[b.ID] == b })
}

func TestAMirrorTakesNoStepBack(t *testing.T) { // D-01, D-08
	s := storetest.New(t)
	m := store.NewMirror(s.Members)
	full := []store.Item[mesh.Member]{{Key: "a", Rev: 5}}
	for _, step := range []struct {
		what  string
		items []store.Item[mesh.Member]
		rev   store.Rev
		takes bool
	}{
		{"the first list", full, 10, true},
		{"an older list", nil, 9, false},
		{"an empty list of the same moment", nil, 10, false},
		{"the same list", full, 10, true},
		{"an empty list of a later moment", nil, 11, true},
	} {
		if err := m.Replace(step.items, step.rev); step.takes != (err == nil) {
			t.Errorf("%s: got %v", step.what, err)
		}
	}
}

func TestAFullCompareRepairsAMirror(t *testing.T) { // D-07
	s := storetest.New(t)
	a, b := addMember(t, s, "Alice"), addMember(t, s, "Bob")
	m := store.NewMirror(s.Members)
	m.SetEvery(100 * time.Millisecond)
	runMirror(t, m)
	want := maps.Clone(m.All())
	m.Spoil(func(items map[mesh.MemberID]store.Item[mesh.Member]) {
		delete(items, a.ID)
		items[b.ID] = store.Item[mesh.Member]{Rev: 1}
		items["member-x"] = store.Item[mesh.Member]{}
	})
	eventually(t, m, "the repair", func(all map[mesh.MemberID]mesh.Member) bool { return maps.Equal(all, want) })
}

func TestAMirrorSurvivesACompaction(t *testing.T) {
	s, link := storetest.NewLinked(t)
	m := store.NewMirror(s.Members)
	runMirror(t, m)
	link.Cut()
	direct := storetest.Open(t, link.To())
	var last store.Rev
	for i := range 5 {
		last = addMemberRev(t, direct, fmt.Sprint("m", i))
	}
	if _, err := direct.Client().Compact(t.Context(), int64(last)); err != nil {
		t.Fatal(err)
	}
	link.Heal()
	eventually(t, m, "what came while it was cut off", func(all map[mesh.MemberID]mesh.Member) bool { return len(all) == 5 })
}
