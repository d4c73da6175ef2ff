package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// noted adds an x to a member's note.
func noted(ctx context.Context, s *store.Store, id mesh.MemberID) error {
	_, err := s.Change(ctx, by, "note", func(tx *store.Tx) error {
		return store.Update(tx, s.Members, id, func(m *mesh.Member) error { m.Note += "x"; return nil })
	})
	return err
}

func noteOf(t *testing.T, s *store.Store, id mesh.MemberID) string {
	t.Helper()
	it, err := s.Members.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return it.Value.Note
}

func TestWhatIsAskedForTwiceIsDoneOnce(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	ctx := store.Once(t.Context(), "bot/7")
	if done, err := s.Done(ctx, "bot/7"); done || err != nil {
		t.Fatalf("before: done %v, %v", done, err)
	}
	for range 2 { // all changes of one request count as one
		if err := noted(ctx, s, m.ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		err := noted(store.Once(t.Context(), "bot/7"), s, m.ID)
		if !errors.Is(err, mesh.ErrExists) || !errors.Is(err, store.ErrDone) || !admin.IsDone(admin.FromStatus(admin.ToStatus(err))) {
			t.Errorf("again: got %v, want it was done", err)
		}
	}
	if done, err := s.Done(ctx, "bot/7"); !done || err != nil {
		t.Errorf("after: done %v, %v", done, err)
	}
	if err := noted(store.Once(t.Context(), "bot/8"), s, m.ID); err != nil {
		t.Errorf("another request: %v", err)
	}
	if got := noteOf(t, s, m.ID); got != "xxx" {
		t.Errorf("got %q, want three", got)
	}
	if _, err := s.Change(store.Once(t.Context(), "bot/7"), by, "fail", func(*store.Tx) error {
		t.Error("what was done is asked for again")
		return nil
	}); !errors.Is(err, store.ErrDone) {
		t.Errorf("got %v", err)
	}
}

func TestWhatFailedOrChangedNothingMayBeAskedForAgain(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	broken := errors.New("broken")
	for name, f := range map[string]func(*store.Tx) error{
		"fails": func(tx *store.Tx) error {
			return errors.Join(store.Delete(tx, s.Members, m.ID), broken)
		},
		"changes nothing": func(*store.Tx) error { return nil },
	} {
		_, err := s.Change(store.Once(t.Context(), name), by, "x", f)
		if err != nil && !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if err := noted(store.Once(t.Context(), name), s, m.ID); err != nil {
			t.Errorf("after it %s: %v", name, err)
		}
	}
	// Derived objects need no mark, and leave it to the change.
	ctx := store.Once(t.Context(), "derived")
	if _, err := s.Update(ctx, func(tx *store.Tx) error { return tx.Event(mesh.Event{Type: mesh.EventTokenUsed}) }); err != nil {
		t.Fatal(err)
	}
	if err := noted(ctx, s, m.ID); err != nil {
		t.Error(err)
	}
}

func TestOnceHoldsWhateverAnswersAreLost(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made ", made), func(t *testing.T) {
			s, other, l := withLossy(t, 0, made)
			m := addMember(t, other, "Alice")
			l.lose.Store(2)
			if err := noted(store.Once(t.Context(), "k"), s, m.ID); err != nil {
				t.Fatal(err)
			}
			if err := noted(store.Once(t.Context(), "k"), other, m.ID); !errors.Is(err, store.ErrDone) {
				t.Errorf("again: %v", err)
			}
			// One whose outcome stays unknown is found by whoever asks again.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.after = func() error { l.lose.Store(1 << 20); cancel(); return nil }
			l.lose.Store(2)
			if err := noted(store.Once(ctx, "lost"), s, m.ID); err == nil {
				t.Fatal("no error")
			}
			if err := noted(store.Once(t.Context(), "lost"), other, m.ID); errors.Is(err, store.ErrDone) != made {
				t.Errorf("after a lost answer: got %v", err)
			}
			if got := noteOf(t, other, m.ID); got != "xx" {
				t.Errorf("got %q, want two", got)
			}
		})
	}
}

func TestOfManyServersOneDoesIt(t *testing.T) {
	addr := storetest.Etcd(t)
	stores := []*store.Store{storetest.Open(t, addr), storetest.Open(t, addr), storetest.Open(t, addr)}
	m := addMember(t, stores[0], "Alice")
	for round := range 20 {
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				err := noted(store.Once(t.Context(), fmt.Sprint("bot/", round)), s, m.ID)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, store.ErrDone):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || len(noteOf(t, stores[0], m.ID)) != round+1 {
			t.Fatalf("round %d: %d did it; %d are noted", round, won.Load(), len(noteOf(t, stores[0], m.ID)))
		}
	}
}

func TestTheRecordSaysHowTheActorSpoke(t *testing.T) {
	s := storetest.New(t)
	who := store.By{Actor: "admin:x", Via: "telegram:77"}
	if _, err := s.Change(t.Context(), who, "add", func(tx *store.Tx) error {
		m := member("Alice")
		return store.Create(tx, s.Members, m.ID, m)
	}); err != nil {
		t.Fatal(err)
	}
	items, _, err := s.Audit.Latest(t.Context(), "", 1)
	if err != nil || len(items) != 1 || items[0].Value.Via != who.Via || items[0].Value.Actor != who.Actor {
		t.Errorf("got %+v, %v", items, err)
	}
}

func TestWhatWasDoneIsForgottenAfterTwoDays(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	if err := noted(store.Once(t.Context(), "bot/7"), s, m.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UseOnce(t.Context(), "certificate"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{47 * time.Hour, 0}, {49 * time.Hour, 1}, {29 * 24 * time.Hour, 0}, {31 * 24 * time.Hour, 1}} {
		n, err := s.Trim(t.Context(), store.TrimPolicy{}, time.Now().Add(c.after))
		if n != c.want || err != nil {
			t.Errorf("after %v: %d forgotten, %v; want %d", c.after, n, err, c.want)
		}
	}
}
