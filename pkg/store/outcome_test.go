package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// lossy loses answers: the first lose transactions are answered with
// Unavailable, after they were made or instead.
type lossy struct {
	clientv3.KV
	lose  atomic.Int64
	made  bool         // make it, then lose the answer
	after func() error // runs once, after the last lost answer
}

func (l *lossy) Txn(ctx context.Context) clientv3.Txn { return &lossyTxn{Txn: l.KV.Txn(ctx), l: l} }

type lossyTxn struct {
	clientv3.Txn
	l *lossy
}

func (t *lossyTxn) If(c ...clientv3.Cmp) clientv3.Txn  { t.Txn = t.Txn.If(c...); return t }
func (t *lossyTxn) Then(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(o...); return t }
func (t *lossyTxn) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }

func (t *lossyTxn) Commit() (*clientv3.TxnResponse, error) {
	left := t.l.lose.Add(-1)
	if left < 0 {
		return t.Txn.Commit()
	}
	if t.l.made {
		if _, err := t.Txn.Commit(); err != nil {
			return nil, err
		}
	}
	if left == 0 && t.l.after != nil {
		if err := t.l.after(); err != nil {
			return nil, err
		}
	}
	return nil, status.Error(codes.Unavailable, "the answer was lost")
}

// withLossy returns a store that loses the answers to so many transactions, and
// one that does not.
func withLossy(t *testing.T, lose int64, made bool) (*store.Store, *store.Store, *lossy) {
	t.Helper()
	addr := storetest.Etcd(t)
	s, other, l := storetest.Open(t, addr), storetest.Open(t, addr), &lossy{made: made}
	s.WrapKV(func(kv clientv3.KV) clientv3.KV { l.KV = kv; return l })
	l.lose.Store(lose)
	return s, other, l
}

func TestAChangeIsMadeOnceWhateverAnswersAreLost(t *testing.T) {
	for _, lose := range []int64{0, 1, 3} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d lost, made %v", lose, made), func(t *testing.T) {
				s, other, l := withLossy(t, 0, made)
				m := addMember(t, other, "counter")
				l.lose.Store(lose)
				rev := change(t, s, func(tx *store.Tx) error {
					if err := tx.Event(mesh.Event{Type: mesh.EventTokenUsed}); err != nil {
						return err
					}
					return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note += "x"; return nil })
				})
				it, err := other.Members.Get(t.Context(), m.ID)
				if err != nil || it.Value.Note != "x" || it.Rev != rev {
					t.Errorf("got %+v, %v; want one x at %d", it, err, rev)
				}
				events, _, err1 := other.Events.List(t.Context())
				audit, _, err2 := other.Audit.List(t.Context())
				if len(events) != 1 || len(audit) != 2 || err1 != nil || err2 != nil {
					t.Errorf("got %d events, %d audit records, %v, %v; want 1 and 2", len(events), len(audit), err1, err2)
				}
			})
		}
	}
}

func TestALostAnswerIsToldFromAnothersChange(t *testing.T) {
	for _, made := range []bool{true, false} {
		s, other, l := withLossy(t, 0, made)
		m := addMember(t, other, "counter")
		l.after = func() error {
			_, err := other.Change(t.Context(), by, "meanwhile", func(tx *store.Tx) error {
				return store.Update(tx, other.Members, m.ID, func(m *mesh.Member) error { m.Note += "y"; return nil })
			})
			return err
		}
		l.lose.Store(1)
		change(t, s, func(tx *store.Tx) error {
			return store.Update(tx, s.Members, m.ID, func(m *mesh.Member) error { m.Note += "x"; return nil })
		})
		want := map[bool]string{true: "xy", false: "yx"}[made]
		if it, err := other.Members.Get(t.Context(), m.ID); err != nil || it.Value.Note != want {
			t.Errorf("made %v: got %q, %v; want %q", made, it.Value.Note, err, want)
		}
	}
}

func TestADerivedObjectIsMadeOnceWhateverAnswersAreLost(t *testing.T) {
	for _, made := range []bool{true, false} {
		s, other, _ := withLossy(t, 2, made)
		if _, err := s.Update(t.Context(), func(tx *store.Tx) error {
			return store.Create(tx, s.Targets, "core-a", mesh.Target{ID: "core-a"})
		}); err != nil {
			t.Errorf("made %v: create: %v", made, err)
		}
		s, other, l := withLossy(t, 0, made)
		if _, err := other.Update(t.Context(), func(tx *store.Tx) error {
			return store.Create(tx, other.Targets, "core-a", mesh.Target{ID: "core-a"})
		}); err != nil {
			t.Fatal(err)
		}
		l.lose.Store(1)
		if _, err := s.Update(t.Context(), func(tx *store.Tx) error { return store.Delete(tx, s.Targets, "core-a") }); err != nil {
			t.Errorf("made %v: delete: %v", made, err)
		}
		if _, err := other.Targets.Get(t.Context(), "core-a"); !errors.Is(err, mesh.ErrNotFound) {
			t.Errorf("made %v: got %v, want not found", made, err)
		}
	}
}

func TestOneOfManyUsesAKeyOnceThoughAnswersAreLost(t *testing.T) {
	s, other, _ := withLossy(t, 1, true)
	if first, err := s.UseOnce(t.Context(), "key"); !first || err != nil {
		t.Errorf("got %v, %v; want the first use", first, err)
	}
	if first, err := other.UseOnce(t.Context(), "key"); first || err != nil {
		t.Errorf("got %v, %v; want not the first use", first, err)
	}
}

func TestAnOutcomeThatStaysUnknownSaysSo(t *testing.T) {
	s, _, _ := withLossy(t, 1<<40, false)
	m := member("Alice")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // the first try takes its time on a busy machine
	defer cancel()
	_, err := s.Change(ctx, by, "x", func(tx *store.Tx) error { return store.Create(tx, s.Members, m.ID, m) })
	if !errors.Is(err, mesh.ErrUnavailable) || mesh.Hint(err) == "" {
		t.Errorf("got %v, want unavailable with a hint", err)
	}
}

// late keeps the first transaction back, as a network may, and loses its answer.
type late struct {
	clientv3.KV
	kept *lateTxn
}

type lateTxn struct {
	clientv3.Txn
	keep bool
}

func (l *late) Txn(ctx context.Context) clientv3.Txn {
	if l.kept != nil {
		return l.KV.Txn(ctx)
	}
	l.kept = &lateTxn{Txn: l.KV.Txn(context.WithoutCancel(ctx)), keep: true}
	return l.kept
}

func (t *lateTxn) If(c ...clientv3.Cmp) clientv3.Txn  { t.Txn = t.Txn.If(c...); return t }
func (t *lateTxn) Then(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(o...); return t }
func (t *lateTxn) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }

func (t *lateTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.keep {
		t.keep = false
		return nil, status.Error(codes.Unavailable, "the answer was lost")
	}
	return t.Txn.Commit()
}

// TestWhatWasRefusedIsNotMadeLater has another take the name before the second
// try and give it up again before the first one arrives.
func TestWhatWasRefusedIsNotMadeLater(t *testing.T) {
	addr := storetest.Etcd(t)
	s, other, l := storetest.Open(t, addr), storetest.Open(t, addr), &late{}
	var held mesh.Member
	s.WrapKV(func(kv clientv3.KV) clientv3.KV { l.KV = kv; return l })
	m := member("Alice")
	_, err := s.Change(t.Context(), by, "add", func(tx *store.Tx) error {
		if err := store.Create(tx, s.Members, m.ID, m); err != nil {
			return err
		}
		if held.ID == "" {
			held = addMember(t, other, "Alice")
		}
		return nil
	})
	if !errors.Is(err, mesh.ErrExists) {
		t.Fatalf("got %v, want exists", err)
	}
	change(t, other, func(tx *store.Tx) error { return store.Delete(tx, other.Members, held.ID) })
	resp, err := l.kept.Commit()
	if err != nil || resp.Succeeded {
		t.Errorf("the first try arrived late: succeeded %v, %v; want a refusal", resp != nil && resp.Succeeded, err)
	}
	if _, err := other.Members.Get(t.Context(), m.ID); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}
