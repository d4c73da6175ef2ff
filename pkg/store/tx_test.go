package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestAHundredUpdatesOfOneObjectAtOnceAllCount(t *testing.T) {
	// The last of them waits for all others, on a busy machine for long.
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://" + storetest.Etcd(t)}, DataKey: storetest.DataKey, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := addMember(t, s, "counter")
	const n = 100
	var wg sync.WaitGroup
	var runs atomic.Int64
	for range n {
		wg.Go(func() {
			_, err := s.Change(t.Context(), by, "count", func(tx *store.Tx) error {
				runs.Add(1)
				return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note += "x"; return nil })
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	it, err := s.Members.Get(t.Context(), m.ID)
	if err != nil || len(it.Value.Note) != n {
		t.Errorf("got %d updates, %v; want %d", len(it.Value.Note), err, n)
	}
	records, _, err := s.Audit.List(t.Context())
	if err != nil || len(records) != n+1 {
		t.Errorf("got %d audit records, %v; want %d", len(records), err, n+1)
	}
	t.Logf("%d runs for %d changes", runs.Load(), n)
}

func TestOfManyWhoWantANameOneGetsIt(t *testing.T) {
	s := storetest.New(t)
	var wg sync.WaitGroup
	var got atomic.Int64
	for range 20 {
		wg.Go(func() {
			m := member("Alice")
			_, err := s.Change(t.Context(), by, "member add", func(tx *store.Tx) error { return store.Create(tx, s.Members, m.ID, m) })
			switch {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, mesh.ErrExists):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, _, err := s.Members.List(t.Context())
	if got.Load() != 1 || len(all) != 1 || err != nil {
		t.Errorf("%d got the name, %d members, %v", got.Load(), len(all), err)
	}
}

func TestWhatWasListedIsComparedAlsoForDeletions(t *testing.T) {
	for name, meanwhile := range map[string]func(s *store.Store, tx *store.Tx, id mesh.MemberID) error{
		"made": func(s *store.Store, tx *store.Tx, _ mesh.MemberID) error {
			m := member("late")
			return store.Create(tx, s.Members, m.ID, m)
		},
		"changed": func(s *store.Store, tx *store.Tx, id mesh.MemberID) error {
			return store.Update(tx, s.Members, id, func(m *mesh.Member) error { m.Note = "late"; return nil })
		},
		"deleted": func(s *store.Store, tx *store.Tx, id mesh.MemberID) error { return store.Delete(tx, s.Members, id) },
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.New(t)
			m := addMember(t, s, "Alice")
			runs := 0
			change(t, s, func(tx *store.Tx) error {
				all, err := store.List(tx, s.Members)
				if err != nil {
					return err
				}
				if runs++; runs == 1 {
					if _, err := s.Change(t.Context(), by, "meanwhile", func(tx *store.Tx) error { return meanwhile(s, tx, m.ID) }); err != nil {
						return err
					}
				}
				e := mesh.Entry{ID: mesh.NewEntryID(), Name: fmt.Sprint("seen ", len(all))}
				return store.Create(tx, s.Entries, e.ID, e)
			})
			if runs != 2 {
				t.Errorf("the change ran %d times, want 2", runs)
			}
		})
	}
}

func TestATransactionSeesOneMomentAndItsOwnWrites(t *testing.T) {
	s := storetest.New(t)
	a, b := addMember(t, s, "a"), addMember(t, s, "b")
	_, err := s.View(t.Context(), func(tx *store.Tx) error {
		if _, err := store.Get(tx, s.Members, a.ID); err != nil {
			return err
		}
		change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, b.ID) })
		if _, err := store.Get(tx, s.Members, b.ID); err != nil {
			return fmt.Errorf("saw a later moment: %w", err)
		}
		all, err := store.List(tx, s.Members)
		if len(all) != 2 {
			return fmt.Errorf("got %d members, want 2", len(all))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	change(t, s, func(tx *store.Tx) error {
		c := member("c")
		if err := store.Create(tx, s.Members, c.ID, c); err != nil {
			return err
		}
		if err := store.Delete(tx, s.Members, a.ID); err != nil {
			return err
		}
		all, err := store.List(tx, s.Members)
		if _, ok := all[c.ID]; !ok || len(all) != 1 || err != nil {
			return fmt.Errorf("got %v, %w; want c alone", all, err)
		}
		if _, err := store.Lookup(tx, s.Members, "c"); err != nil {
			return err
		}
		return store.Delete(tx, s.Members, c.ID) // made and unmade
	})
}

func TestAnErrorOfTheFunctionWritesNothingAndComesBackAsItIs(t *testing.T) {
	s := storetest.New(t)
	want := errors.New("no")
	m := member("Alice")
	_, err := s.Change(t.Context(), by, "member add", func(tx *store.Tx) error {
		if err := store.Create(tx, s.Members, m.ID, m); err != nil {
			return err
		}
		return want
	})
	if err != want {
		t.Errorf("got %v, want %v", err, want)
	}
	if _, err := s.Members.Get(t.Context(), m.ID); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestTooMuchInOneChangeIsInvalid(t *testing.T) {
	s := storetest.New(t)
	_, err := s.Change(t.Context(), by, "flood", func(tx *store.Tx) error {
		for i := range 101 {
			m := member(fmt.Sprint("m", i))
			if err := store.Create(tx, s.Members, m.ID, m); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), "too much in one change") {
		t.Errorf("got %v, want invalid", err)
	}
}
