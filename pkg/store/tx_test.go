package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestAHundredUpdatesOfOneObjectAtOnceAllCount(t *testing.T) {
	s := storetest.New(t)
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

func TestKindsThatPeopleChangeNeedAnAuditRecord(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	for name, f := range map[string]func(tx *store.Tx) error{
		"create": func(tx *store.Tx) error { n := member("Bob"); return store.Create(tx, s.Members, n.ID, n) },
		"update": func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(*mesh.Member) error { return nil })
		},
		"delete": func(tx *store.Tx) error { return store.Delete(tx, s.Members, m.ID) },
		"revocation": func(tx *store.Tx) error {
			return store.Create(tx, s.Revocations, "1", mesh.SignedRevocation{Record: mesh.Revocation{ID: "1"}})
		},
		"config": func(tx *store.Tx) error { return store.Create(tx, s.Config, store.ConfigKey, mesh.DefaultConfig()) },
		"audit":  func(tx *store.Tx) error { return store.Create(tx, s.Audit, "1", mesh.AuditRecord{}) },
	} {
		if _, err := s.Update(t.Context(), f); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
		if _, err := s.View(t.Context(), f); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s in a view: got %v, want invalid", name, err)
		}
	}
	if _, err := s.Change(t.Context(), by, "forge", func(tx *store.Tx) error {
		return store.Create(tx, s.Audit, "1", mesh.AuditRecord{})
	}); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a forged audit record: got %v, want invalid", err)
	}
	if _, err := s.Change(t.Context(), store.By{}, "x", func(*store.Tx) error { return nil }); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("nobody: got %v, want invalid", err)
	}
}

func TestTheAuditRecordIsWrittenWithTheChange(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	rev := change(t, s, func(tx *store.Tx) error {
		if err := tx.Event(mesh.Event{Type: mesh.EventTokenUsed, Severity: mesh.Info, Object: "member/" + string(m.ID)}); err != nil {
			return err
		}
		return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note = "new"; return nil })
	})
	items, _, err := s.Audit.Latest(t.Context(), "", 1)
	if err != nil || len(items) != 1 || items[0].Rev != rev {
		t.Fatalf("got %+v, %v; want a record of revision %d", items, err, rev)
	}
	rec := items[0].Value
	if rec.Actor != by.Actor || rec.Request != by.Request || rec.Action != "test" || rec.ID != items[0].Key || time.Since(rec.Time) > time.Minute {
		t.Errorf("got %+v", rec)
	}
	if len(rec.Changes) != 1 || rec.Changes[0].Object != "member/"+string(m.ID) || rec.Changes[0].Before["note"] != nil || rec.Changes[0].After["note"] != "new" {
		t.Errorf("got %+v", rec.Changes)
	}
	events, _, err := s.Events.Latest(t.Context(), "", 10)
	if err != nil || len(events) != 1 || events[0].Rev != rev || events[0].Value.ID != events[0].Key || events[0].Value.Time.IsZero() {
		t.Errorf("got %+v, %v", events, err)
	}
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	change(t, s, func(tx *store.Tx) error {
		return store.Update(tx, s.Members, m.ID, func(*mesh.Member) error { return nil })
	})
	if all, _, err := s.Audit.List(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("got %d audit records, %v; want that of the creation", len(all), err)
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

func TestSecretsAreNowhereInEtcd(t *testing.T) {
	s := storetest.New(t)
	m := addMember(t, s, "Alice")
	const secret, key = "planted-device-secret", "planted-cell-key"
	dev := mesh.Device{ID: mesh.NewDeviceID(), Member: m.ID, Name: "phone", State: mesh.DeviceActive}
	cell := mesh.Cell{ID: mesh.NewCellID(), Name: "c", Suffix: "c.example.net", State: mesh.CellActive}
	tok := mesh.Token{ID: mesh.NewTokenID(), Hash: "planted-token-hash", Role: mesh.RoleCore}
	var err error
	if dev.Secret, err = s.Seal(store.DeviceSecretPlace(dev.ID), secret); err != nil {
		t.Fatal(err)
	}
	dev.Verifiers = mesh.Verifiers{HTTP: "planted-verifier"}
	if cell.CAKey, err = s.Seal(store.CellKeyPlace(cell.ID), key); err != nil {
		t.Fatal(err)
	}
	change(t, s, func(tx *store.Tx) error {
		return errors.Join(store.Create(tx, s.Devices, dev.ID, dev), store.Create(tx, s.Cells, cell.ID, cell),
			store.Create(tx, s.Tokens, tok.ID, tok), store.Create(tx, s.CA, "root", store.Blob{Data: []byte("planted-blob")}))
	})
	change(t, s, func(tx *store.Tx) error { return store.Delete(tx, s.Devices, dev.ID) })
	resp, err := s.Client().Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		for _, planted := range []string{secret, key} {
			if strings.Contains(string(kv.Value), planted) {
				t.Errorf("%s holds %s", kv.Key, planted)
			}
		}
		if !strings.HasPrefix(string(kv.Key), "/mesh/v1/audit/") {
			continue
		}
		for _, redacted := range []string{"planted", "sealed:", "verifiers", "cGxhbnRlZC1ibG9i"} {
			if strings.Contains(string(kv.Value), redacted) {
				t.Errorf("audit holds %s: %s", redacted, kv.Value)
			}
		}
		var rec mesh.AuditRecord
		if err := json.Unmarshal(kv.Value, &rec); err != nil || len(rec.Changes) == 0 {
			t.Errorf("got %+v, %v", rec, err)
		}
	}
	got, err := s.Unseal(store.DeviceSecretPlace(dev.ID), dev.Secret)
	if err != nil || got.Reveal() != secret {
		t.Errorf("got %v, %v back", got, err)
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
