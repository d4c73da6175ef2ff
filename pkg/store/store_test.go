package store_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var by = store.By{Actor: "local:0", Request: "r1"}

// change makes a change that must succeed.
func change(t testing.TB, s *store.Store, f func(*store.Tx) error) store.Rev {
	t.Helper()
	rev, err := s.Change(t.Context(), by, "test", f)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func member(name string) mesh.Member {
	return mesh.Member{ID: mesh.NewMemberID(), Name: name, State: mesh.MemberActive, Created: time.Unix(1_800_000_000, 0).UTC()}
}

func addMember(t testing.TB, s *store.Store, name string) mesh.Member {
	t.Helper()
	m := member(name)
	change(t, s, func(tx *store.Tx) error { return store.Create(tx, s.Members, m.ID, m) })
	return m
}

func TestObjectsAreCreatedReadChangedAndDeleted(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	it, err := s.Members.Get(t.Context(), m.ID)
	if err != nil || it.Value != m || it.Rev == 0 {
		t.Fatalf("got %+v, %v; want %+v", it, err, m)
	}
	rev := change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = "x"; return nil })
	})
	if it, err = s.Members.Get(t.Context(), m.ID); err != nil || it.Value.Note != "x" || it.Rev != rev {
		t.Fatalf("got %+v, %v; want the note at %d", it, err, rev)
	}
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) })
	if _, err = s.Members.Get(t.Context(), m.ID); !errors.Is(err, mesh.ErrNotFound) {
		t.Fatalf("got %v, want not found", err)
	}
}
