package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// linkUp has the chain cover what was written up to now, at most so many records
// in a link.
func linkUp(ctx context.Context, s *store.Store, limit int, before time.Time) (link mesh.AuditSegment, err error) {
	_, err = s.Update(ctx, func(tx *store.Tx) error {
		last, err := store.LastLink(tx)
		if err != nil {
			return err
		}
		raws, err := store.Unchained(tx, last, before, limit)
		if err != nil || len(raws) == 0 {
			link = mesh.AuditSegment{}
			return err
		}
		var records []audit.Record
		for _, r := range raws {
			records = append(records, audit.Record{ID: r.ID, JSON: r.Value})
		}
		if link, err = audit.Link(last, records, time.Now()); err != nil {
			return err
		}
		return store.AddLink(tx, link)
	})
	return link, err
}

func later() time.Time { return time.Now().Add(time.Minute) }

func mustLink(t *testing.T, s *store.Store, limit int) mesh.AuditSegment {
	t.Helper()
	l, err := linkUp(t.Context(), s, limit, later())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// checkAudit compares the store's records with its chain.
func checkAudit(t *testing.T, s *store.Store, keep *audit.Keep, after ...time.Duration) audit.Report {
	t.Helper()
	var c *audit.Checker
	err := s.AuditAt(t.Context(), func(links []mesh.AuditSegment) error {
		c = audit.NewChecker(links)
		return nil
	}, func(r store.Raw) error {
		c.Add(audit.Record{ID: r.ID, JSON: r.Value})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, d := range after {
		now = now.Add(d)
	}
	return c.End(keep, now)
}

func TestTheChainCoversEveryRecord(t *testing.T) {
	s := storetest.New(t)
	if l := mustLink(t, s, 10); l.ID != "" {
		t.Fatalf("a link over nothing: %+v", l)
	}
	for range 5 {
		addMember(t, s, store.NewTimeID(time.Now()))
	}
	for _, want := range []int{2, 2, 1, 0} {
		if l := mustLink(t, s, 2); l.Count != want {
			t.Errorf("got a link over %d records, want %d", l.Count, want)
		}
	}
	addMember(t, s, "another")
	if l, err := linkUp(t.Context(), s, 10, time.Now().Add(-time.Minute)); l.ID != "" || err != nil {
		t.Errorf("what is too young is linked: %+v, %v", l, err)
	}
	if r := checkAudit(t, s, &audit.Keep{Age: time.Hour, Links: time.Hour}); r.Wrong != 0 || r.Links != 3 || r.Records != 5 || r.Open != 1 {
		t.Errorf("got %+v", r)
	}
	if _, err := s.Update(t.Context(), func(tx *store.Tx) error {
		return store.Create(tx, s.AuditChain, audit.Number(9), mesh.AuditSegment{ID: audit.Number(9)})
	}); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("a link past the chain: %v", err)
	}
}

// TestNoRecordIsWrittenBehindTheChain: a change that began before a link was made
// gets an id after it; and so does one of a server whose clock is behind.
func TestNoRecordIsWrittenBehindTheChain(t *testing.T) {
	addr := storetest.Etcd(t)
	slow, s := storetest.Open(t, addr), storetest.Open(t, addr)
	addMember(t, s, "first")
	for round := range 3 { // before this process has met the chain, and after
		runs := 0
		m := member(store.NewTimeID(time.Now()))
		if _, err := slow.Change(t.Context(), by, "slow", func(tx *store.Tx) error {
			if runs++; runs == 1 {
				addMember(t, s, store.NewTimeID(time.Now()))
				mustLink(t, s, 100)
			}
			return store.Create(tx, slow.Members, m.ID, m)
		}); err != nil {
			t.Fatal(err)
		}
		if runs != 2 {
			t.Errorf("round %d: it ran %d times, want twice", round, runs)
		}
		if r := checkAudit(t, s, nil); r.Wrong != 0 || r.Open != 1 {
			t.Errorf("round %d: got %+v", round, r)
		}
	}
	// The chain has gone beyond what the clock says.
	future := time.Now().Add(time.Hour)
	if _, err := s.Client().Put(t.Context(), "/mesh/v1/audit/"+store.NewTimeID(future), `{"schema":1,"minReader":1}`); err != nil {
		t.Fatal(err)
	}
	l, err := linkUp(t.Context(), s, 100, future.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		addMember(t, slow, store.NewTimeID(time.Now()))
	}
	if r := checkAudit(t, s, nil); r.Wrong != 0 || r.Open != 2 {
		t.Errorf("after %s: got %+v", l.Through, r)
	}
}

func TestARecordThatAppearsWhileALinkIsMadeIsInIt(t *testing.T) {
	s := storetest.New(t)
	addMember(t, s, "a")
	addMember(t, s, "b")
	runs := 0
	var link mesh.AuditSegment
	_, err := s.Update(t.Context(), func(tx *store.Tx) error {
		last, err := store.LastLink(tx)
		if err != nil {
			return err
		}
		raws, err := store.Unchained(tx, last, later(), 10)
		if err != nil {
			return err
		}
		var records []audit.Record
		for _, r := range raws {
			records = append(records, audit.Record{ID: r.ID, JSON: r.Value})
		}
		if link, err = audit.Link(last, records, time.Now()); err != nil {
			return err
		}
		if runs++; runs == 1 { // by a server that does not look at the chain
			id := raws[0].ID[:16] + "ffffffff"
			if _, err := s.Client().Put(t.Context(), "/mesh/v1/audit/"+id, `{"schema":1,"minReader":1,"id":"`+id+`"}`); err != nil {
				return err
			}
		}
		return store.AddLink(tx, link)
	})
	if err != nil || runs != 2 || link.Count != 3 {
		t.Errorf("%d runs, %d records, %v; want 2 and 3", runs, link.Count, err)
	}
}

func TestALinkIsMadeOnceWhateverAnswersAreLost(t *testing.T) {
	for _, made := range []bool{true, false} {
		s, other, l := withLossy(t, 0, made)
		addMember(t, other, "a")
		l.lose.Store(2)
		mustLink(t, s, 10)
		if r := checkAudit(t, other, nil); r.Wrong != 0 || r.Links != 1 || r.Records != 1 {
			t.Errorf("made %v: got %+v", made, r)
		}
	}
}

func TestADeposedLeaderAddsNoLink(t *testing.T) {
	s := storetest.New(t)
	addMember(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Lead(ctx, "audits", "mgmt-a", func(led context.Context) error {
		if _, err := s.Client().Delete(t.Context(), "/mesh/v1/election/audits"); err != nil {
			return err
		}
		_, err := linkUp(context.WithoutCancel(led), s, 10, later())
		cancel()
		if !errors.Is(err, store.ErrDeposed) {
			t.Errorf("got %v, want deposed", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := checkAudit(t, s, nil); r.Links != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTheChainGoesOnAfterAnImport(t *testing.T) {
	s := storetest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		addMember(t, s, name)
	}
	last := mustLink(t, s, 2)
	objects, _, err := s.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := s.AuditAfter(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	to := storetest.New(t)
	if err := to.Import(t.Context(), append(objects, records...), nil); err != nil {
		t.Fatal(err)
	}
	addMember(t, to, "d")
	next := mustLink(t, to, 10)
	if next.ID != audit.Number(2) || next.Sum != audit.Sum(last.Sum, next) || next.Count != 2 {
		t.Errorf("got %+v after %+v", next, last)
	}
	if r := checkAudit(t, to, nil); r.Wrong != 0 || r.Records != 4 || r.Open != 0 {
		t.Errorf("got %+v", r)
	}
}
