package store_test

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestAuditRecordsAreTrimmedLinkByLink(t *testing.T) {
	s := storetest.New(t)
	for range 10 {
		addMember(t, s, store.NewTimeID(time.Now()))
	}
	trim := func(p store.TrimPolicy, after time.Duration) int64 {
		t.Helper()
		n, err := s.Trim(t.Context(), p, time.Now().Add(after))
		if err != nil {
			t.Fatal(err)
		}
		if r := checkAudit(t, s, &audit.Keep{Links: time.Hour}, after); r.Wrong != 0 {
			t.Fatalf("trimming broke the chain: %v", r.Faults)
		}
		return n
	}
	month := 30 * 24 * time.Hour
	if n := trim(store.TrimPolicy{AuditNumber: 1, AuditAge: time.Hour}, month); n != 0 {
		t.Errorf("%d records that no link covers are trimmed", n)
	}
	for range 3 {
		mustLink(t, s, 3) // nine of ten
	}
	early := mustRev(t, s)
	for _, c := range []struct {
		name  string
		p     store.TrimPolicy
		after time.Duration
		want  int64
	}{
		{"there is room", store.TrimPolicy{AuditNumber: 10, AuditAge: month}, 0, 0},
		{"less than a link is too many", store.TrimPolicy{AuditNumber: 8}, 0, 0},
		{"no backup has them", store.TrimPolicy{AuditNumber: 1, AuditAge: time.Hour, Exported: new(store.Rev)}, month, 0},
		{"no backup has them, within a limit", store.TrimPolicy{AuditNumber: 1, Exported: new(store.Rev), AuditLimit: 7}, 0, 3},
		{"a backup has them", store.TrimPolicy{AuditNumber: 4, Exported: &early}, 0, 3},
		{"they are old", store.TrimPolicy{AuditAge: time.Hour}, 2 * time.Hour, 3},
		{"none is left that is linked", store.TrimPolicy{AuditNumber: 1, AuditAge: time.Hour}, month, 0},
	} {
		if n := trim(c.p, c.after); n != c.want {
			t.Errorf("%s: trimmed %d, want %d", c.name, n, c.want)
		}
	}
	if r := checkAudit(t, s, nil); r.Links != 3 || r.Trimmed != 3 || r.Records != 0 || r.Open != 1 {
		t.Errorf("got %+v", r)
	}
	addMember(t, s, "one more")
	mustLink(t, s, 10)
	trim(store.TrimPolicy{LinkAge: time.Hour}, 0)
	if r := checkAudit(t, s, nil); r.Links != 4 {
		t.Errorf("links that are young: got %+v", r)
	}
	trim(store.TrimPolicy{LinkAge: time.Hour}, 2*time.Hour)
	if r := checkAudit(t, s, nil); r.Wrong != 0 || r.Links != 1 || r.Records != 2 {
		t.Errorf("the last of those whose records are gone, and those after: got %+v", r)
	}
}

func mustRev(t *testing.T, s *store.Store) store.Rev {
	t.Helper()
	_, rev, err := s.Members.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestWhatTheBotNoLongerWaitsForIsTrimmed(t *testing.T) {
	s := storetest.New(t)
	now := time.Now().UTC()
	if _, err := s.Change(t.Context(), by, "talk", func(tx *store.Tx) error {
		for _, c := range []struct {
			id  string
			age time.Duration
		}{{"1", 49 * time.Hour}, {"2", time.Hour}} {
			then := now.Add(-c.age)
			for _, err := range []error{
				store.Create(tx, s.Chats, c.id, mesh.TelegramChat{ID: c.id, Until: then.Add(2 * time.Hour)}),
				store.Create(tx, s.Threads, "7."+c.id, mesh.TelegramThread{ID: "7." + c.id, Created: then.Add(-29 * 24 * time.Hour)}),
				store.Create(tx, s.TelegramCodes, c.id, mesh.TelegramCode{ID: c.id, Expires: then.Add(2 * time.Hour)}),
				store.Create(tx, s.Shown, mesh.TokenID(c.id), mesh.TelegramShown{Token: mesh.TokenID(c.id), Expires: then}),
				store.Create(tx, s.Outbox, c.id, mesh.Notice{ID: c.id, Created: then}),
			} {
				if err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	n, err := s.Trim(t.Context(), store.DefaultTrim(), now)
	chats, _, _ := s.Chats.List(t.Context())
	threads, _, _ := s.Threads.List(t.Context())
	codes, _, _ := s.TelegramCodes.List(t.Context())
	shown, _, _ := s.Shown.List(t.Context())
	outbox, _, _ := s.Outbox.List(t.Context())
	if n != 5 || err != nil || len(chats) != 1 || len(threads) != 1 || len(codes) != 1 || len(shown) != 1 || len(outbox) != 1 {
		t.Errorf("removed %d, %v; left %v %v %v %v %v", n, err, chats, threads, codes, shown, outbox)
	}
}
