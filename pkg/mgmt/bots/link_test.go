package bots

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// owner is a context of an administrator who calls with a certificate.
func (w *world) owner(role mesh.AdminRole, id mesh.AdminID) context.Context {
	return admin.WithCaller(w.t.Context(), admin.Caller{Actor: mesh.Actor("admin:" + string(id)), Role: role, Request: "req-2"})
}

func TestACodeLinksOnce(t *testing.T) {
	w := newWorld(t)
	m := w.member("alice", bob) // somebody else is alice too
	w.admin("boss", mesh.AdminOwner, boss)
	code, err := w.codeCreate(w.owner(mesh.AdminOperator, "admin-x"), admin.BotCodeRequest{Member: "alice"})
	if err != nil || code.URL != "" {
		t.Fatal(code, err)
	}
	typed := strings.ToUpper(code.Code[:5] + " " + code.Code[5:10] + "-" + code.Code[10:])
	self := do(w, admin.BotLink, w.link, alice, admin.BotLinkRequest{Code: typed, Name: "Алиса", Language: "ru"})
	if self.Standing != mesh.BotMember || self.Member != "alice" || self.Language != "ru" || self.Role != "" {
		t.Errorf("she is %+v", self)
	}
	ctx, err := again(w, admin.BotLink, alice)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.link(ctx, admin.BotLinkRequest{Code: code.Code})
	refused(t, err, store.ErrDone, mesh.DoneBefore)
	_, err = try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: code.Code})
	refused(t, err, mesh.ErrNotFound, "no such code")
	if got := w.waiting(boss); len(got) != 1 || got[0].Kind != mesh.NoticeLinked || got[0].Params["name"] != "alice" || got[0].Params["kind"] != "member" {
		t.Errorf("the operator is told %+v", got)
	}
	records, _, err := w.Store.Audit.Latest(t.Context(), "", 1)
	if err != nil || records[0].Value.Via != "telegram:2001" || records[0].Value.Actor != "guest" || records[0].Value.Action != "telegram.link" {
		t.Errorf("on record is %+v, %v", records, err)
	}
	do(w, admin.BotUnlink, w.unlink, alice, admin.None{})
	if p, err := w.Person(t.Context(), alice); err != nil || p.User.ID != "" {
		t.Errorf("after unlinking %+v is kept, %v", p.User, err)
	}
	if p, err := w.Person(t.Context(), bob); err != nil || p.Member.ID != m.ID {
		t.Errorf("another account is %+v, %v", p, err)
	}
}

func TestCodesThatLinkNobody(t *testing.T) {
	w := newWorld(t)
	m := w.member("alice", alice)
	make := func(life time.Duration) string {
		code, err := w.codeCreate(w.owner(mesh.AdminOwner, "admin-x"), admin.BotCodeRequest{Member: "alice", Life: mesh.Duration(life)})
		if err != nil {
			t.Fatal(err)
		}
		return code.Code
	}
	over, archived := make(time.Minute), make(7*24*time.Hour)
	w.later.Store(int64(2 * time.Minute))
	_, err := try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: over})
	refused(t, err, errCode, "time is over")
	w.write(func(tx *store.Tx) error {
		return store.Update(tx, w.Store.Members, m.ID, func(m *mesh.Member) error { m.State = mesh.MemberArchived; return nil })
	})
	_, err = try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: archived})
	refused(t, err, errCode, "no such code")
	for range wrongCodes - 2 {
		_, err = try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: newCode()})
		refused(t, err, errCode, "no such code")
	}
	_, err = try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: newCode()})
	refused(t, err, mesh.ErrDenied, "too many wrong codes")
	if _, err = try(w, admin.BotLink, w.link, bob, admin.BotLinkRequest{Code: newCode()}); mesh.Kind(err) != mesh.ErrNotFound {
		t.Errorf("another user is refused too: %v", err)
	}
	w.later.Store(int64(2 * time.Hour))
	_, err = try(w, admin.BotLink, w.link, stranger, admin.BotLinkRequest{Code: newCode()})
	refused(t, err, errCode, "no such code")
}

func TestWhoMayBindSomebodyToAnAdministrator(t *testing.T) {
	w := newWorld(t)
	a, o := w.admin("worker", mesh.AdminOperator, worker), w.admin("boss", mesh.AdminOwner, boss)
	for _, c := range []struct {
		role mesh.AdminRole
		id   mesh.AdminID
		ref  string
		ok   bool
	}{
		{mesh.AdminOwner, o.ID, "worker", true},
		{mesh.AdminOperator, a.ID, "worker", true},
		{mesh.AdminOperator, a.ID, "boss", false},
	} {
		_, err := w.codeCreate(w.owner(c.role, c.id), admin.BotCodeRequest{Admin: c.ref})
		if got := err == nil; got != c.ok || !got && mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("%s for %s: %v, want %v", c.role, c.ref, err, c.ok)
		}
	}
	_, err := try(w, admin.BotCodeCreate, w.codeCreate, boss, admin.BotCodeRequest{Admin: "worker"})
	refused(t, err, mesh.ErrDenied, "binds nobody")
	_, err = w.codeCreate(w.owner(mesh.AdminOwner, o.ID), admin.BotCodeRequest{})
	refused(t, err, mesh.ErrInvalid, "either an administrator or a member")
	_, err = w.codeCreate(w.owner(mesh.AdminOwner, o.ID), admin.BotCodeRequest{Admin: "boss", Life: mesh.Duration(8 * 24 * time.Hour)})
	refused(t, err, mesh.ErrInvalid, "at most")
}

func TestALinkToTheBotHasItsName(t *testing.T) {
	w := newWorld(t)
	o := w.admin("boss", mesh.AdminOwner, boss)
	if _, err := w.Store.Update(t.Context(), func(tx *store.Tx) error {
		return w.putState(tx, func(st *mesh.BotState) { st.Username = "our_bot" })
	}); err != nil {
		t.Fatal(err)
	}
	code, err := w.codeCreate(w.owner(mesh.AdminOwner, o.ID), admin.BotCodeRequest{Admin: "boss"})
	if err != nil || code.URL != "https://t.me/our_bot?start="+code.Code {
		t.Errorf("got %+v, %v", code, err)
	}
}

// Who somebody is, is found out for every call.
func TestWhatIsTakenAwayIsGoneAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.admin("worker", mesh.AdminOperator, worker)
	do(w, admin.BotGuests, w.guests, worker, admin.Page{})
	set := func(f func(*mesh.Administrator)) {
		w.write(func(tx *store.Tx) error {
			return store.Update(tx, w.Store.Admins, a.ID, func(a *mesh.Administrator) error { f(a); return nil })
		})
	}
	set(func(a *mesh.Administrator) { a.Suspended = true })
	_, err := try(w, admin.BotGuests, w.guests, worker, admin.Page{})
	refused(t, err, mesh.ErrDenied, "no administrator")
	set(func(a *mesh.Administrator) { a.Suspended, a.Role = false, mesh.AdminAuditor })
	do(w, admin.BotGuests, w.guests, worker, admin.Page{})
	_, err = try(w, admin.BotBroadcast, w.broadcast, worker, admin.BotBroadcastRequest{Text: "hello"})
	refused(t, err, mesh.ErrDenied, "it needs the role operator")
	set(func(a *mesh.Administrator) { a.Revoked = true })
	_, err = try(w, admin.BotGuests, w.guests, worker, admin.Page{})
	refused(t, err, mesh.ErrDenied, "no administrator")
}

func TestQuestionsAreKeptForTheNextLeader(t *testing.T) {
	w := newWorld(t)
	w.member("alice", alice)
	until := time.Now().Add(time.Hour)
	do(w, admin.BotExpect, w.expect, alice, mesh.TelegramChat{ID: "99", Asked: "name", Data: "x", Until: until})
	self := do(w, admin.BotWho, w.who, alice, admin.BotWhoRequest{})
	if self.Expect == nil || self.Expect.Asked != "name" || self.Expect.ID != alice.String() {
		t.Fatalf("expected is %+v", self.Expect)
	}
	w.later.Store(int64(2 * time.Hour))
	if self = do(w, admin.BotWho, w.who, alice, admin.BotWhoRequest{}); self.Expect != nil {
		t.Error("the question outlives its time")
	}
	w.later.Store(0)
	do(w, admin.BotExpect, w.expect, alice, mesh.TelegramChat{})
	if self = do(w, admin.BotWho, w.who, alice, admin.BotWhoRequest{}); self.Expect != nil {
		t.Error("the question stays")
	}
	_, err := try(w, admin.BotExpect, w.expect, alice, mesh.TelegramChat{Asked: "x", Data: strings.Repeat("x", maxData+1), Until: until})
	refused(t, err, mesh.ErrInvalid, "too long")
	for n := range strangersBurst + 1 {
		_, err = try(w, admin.BotExpect, w.expect, mesh.TelegramID(5000+n), mesh.TelegramChat{Asked: "x", Until: until})
	}
	refused(t, err, mesh.ErrUnavailable, "too many strangers")
}

func TestLanguages(t *testing.T) {
	w := newWorld(t)
	w.member("alice", alice)
	do(w, admin.BotLanguage, w.language, alice, admin.BotLanguageRequest{Language: "ru"})
	do(w, admin.BotLanguage, w.language, stranger, admin.BotLanguageRequest{Language: "ru"})
	if self := do(w, admin.BotWho, w.who, alice, admin.BotWhoRequest{}); self.Language != "ru" {
		t.Errorf("her language is %q", self.Language)
	}
	if u, _, err := w.Store.Telegram.List(t.Context()); err != nil || len(u) != 1 {
		t.Errorf("of a stranger is kept %v, %v", u, err)
	}
	for in, want := range map[string]string{"pt-BR": "pt-BR", "<b>": "", strings.Repeat("x", 99): ""} {
		if got := language(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func FuzzCode(f *testing.F) {
	f.Add("abcde fghij-klmno pqrst")
	f.Add(strings.Repeat(" ", 100))
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := codeID(s)
		if ok != (len(id) == 64) {
			t.Errorf("%s: %q, %v", strconv.Quote(s), id, ok)
		}
	})
}
