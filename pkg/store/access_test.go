package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestUnknownMembersOfAnObjectSurviveAnUpdate(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	key := "/mesh/v1/members/" + string(m.ID)
	raw := `{"schema":2,"minReader":1,"id":"` + string(m.ID) + `","name":"Alice","state":"active","created":"2027-01-15T08:00:00Z","shoe":{"size":44}}`
	if _, err := s.Client().Put(t.Context(), key, raw); err != nil {
		t.Fatal(err)
	}
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = "x"; return nil })
	})
	resp, err := s.Client().Get(t.Context(), key)
	if err != nil || !strings.Contains(string(resp.Kvs[0].Value), `"shoe":{"size":44}`) {
		t.Errorf("got %s, %v", resp.Kvs[0].Value, err)
	}
}

func TestAnUnreadableObjectIsNamed(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	for name, raw := range map[string]string{"damaged": `{"schema":1,"minReader":1,"id":`, "newer": `{"schema":5,"minReader":5}`} {
		if _, err := s.Client().Put(t.Context(), "/mesh/v1/members/"+string(m.ID), raw); err != nil {
			t.Fatal(err)
		}
		_, get := s.Members.Get(t.Context(), m.ID)
		_, _, list := s.Members.List(t.Context())
		_, change := s.Change(t.Context(), by, "x", func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(*mesh.Member) error { return nil })
		})
		for verb, err := range map[string]error{"get": get, "list": list, "change": change} {
			if err == nil || !strings.Contains(err.Error(), "members/"+string(m.ID)) || mesh.Hint(err) == "" {
				t.Errorf("%s of a %s object: got %v", verb, name, err)
			}
		}
	}
}

func TestHostileIdsReachNoOtherKey(t *testing.T) {
	s := storetest.New(t)
	for _, id := range []string{"", "../cells/x", "a/b", "A", "a b", "a\x00", "ä", strings.Repeat("a", 301)} {
		if _, err := s.Members.Get(t.Context(), mesh.MemberID(id)); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: got %v, want invalid", id, err)
		}
		_, err := s.Change(t.Context(), by, "x", func(tx *store.Tx) error {
			return store.Create(tx, s.Members, mesh.MemberID(id), mesh.Member{ID: mesh.MemberID(id), Name: "n"})
		})
		if !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: got %v, want invalid", id, err)
		}
	}
	m := member("x")
	_, err := s.Change(t.Context(), by, "x", func(tx *store.Tx) error { return store.Create(tx, s.Members, mesh.NewMemberID(), m) })
	if !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("an object under another's id: got %v, want invalid", err)
	}
}

func TestThreeThousandObjectsAreListedAtOneMoment(t *testing.T) {
	s := storetest.New(t)
	const n = 3000
	for i := 0; i < n; {
		ops := []clientv3.Op{}
		for ; len(ops) < 100 && i < n; i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/mesh/v1/certs/%d", 10000+i), `{"schema":1,"minReader":1,"serial":"`+fmt.Sprint(10000+i)+`"}`))
		}
		if _, err := s.Client().Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	all, rev, err := s.Certs.List(t.Context())
	if err != nil || len(all) != n || rev == 0 {
		t.Fatalf("got %d at %d, %v; want %d", len(all), rev, err, n)
	}
	seen, after := 0, ""
	for {
		items, next, err := s.Certs.Page(t.Context(), after, 700)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.Key != it.Value.Serial || it.Key != fmt.Sprint(10000+seen) {
				t.Fatalf("got %+v at %d", it, seen)
			}
			seen++
		}
		if after = next; after == "" {
			break
		}
	}
	if seen != n {
		t.Errorf("got %d in pages, want %d", seen, n)
	}
}

func TestWithoutEtcdEverythingEndsAsUnavailable(t *testing.T) {
	for name, fail := range map[string]func(*storetest.Link){"cut": (*storetest.Link).Cut, "frozen": (*storetest.Link).Freeze} {
		t.Run(name, func(t *testing.T) {
			s, link := storetest.NewLinked(t)
			m := addMember(t, s, "Alice")
			fail(link)
			for verb, f := range map[string]func(ctx context.Context) error{
				"get":  func(ctx context.Context) error { _, err := s.Members.Get(ctx, m.ID); return err },
				"list": func(ctx context.Context) error { _, _, err := s.Members.List(ctx); return err },
				"change": func(ctx context.Context) error {
					_, err := s.Change(ctx, by, "x", func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) })
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				began := time.Now()
				err := f(ctx)
				cancel()
				if took := time.Since(began); !errors.Is(err, mesh.ErrUnavailable) || took > 5*time.Second {
					t.Errorf("%s: got %v after %v, want unavailable after 300 ms", verb, err, took)
				}
			}
			link.Heal()
			if _, err := s.Members.Get(t.Context(), m.ID); err != nil {
				t.Errorf("after the link healed: %v", err)
			}
		})
	}
}

func TestACancelledCallSaysSo(t *testing.T) {
	s, link := storetest.NewLinked(t)
	link.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := s.Members.Get(ctx, mesh.NewMemberID()); !errors.Is(err, context.Canceled) || mesh.Kind(err) != nil {
		t.Errorf("got %v, want canceled", err)
	}
}
