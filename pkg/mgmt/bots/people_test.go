package bots

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestAGuestIsLetIn(t *testing.T) {
	w := newWorld(t)
	w.admin("boss", mesh.AdminOwner, boss)
	w.admin("worker", mesh.AdminOperator, worker)
	w.admin("reader", mesh.AdminAuditor, reader)
	w.cell("c1")
	do(w, admin.BotJoin, w.join, stranger, admin.BotJoinRequest{Name: "Carol", Text: "please", Language: "en"})
	_, err := try(w, admin.BotJoin, w.join, stranger, admin.BotJoinRequest{Name: "Carol"})
	refused(t, err, mesh.ErrExists, "waits for an answer")
	if n := w.waiting(boss); len(n) != 1 || n[0].Params["text"] != "please" || len(w.waiting(worker)) != 1 || len(w.waiting(reader)) != 0 {
		t.Errorf("the operators are told %+v, %+v, the auditor %+v", n, w.waiting(worker), w.waiting(reader))
	}
	guest := do(w, admin.BotGuests, w.guests, worker, admin.Page{}).Items[0]
	if string(guest.ID) != w.waiting(boss)[0].Params["user"] || guest.User != stranger.String() {
		t.Errorf("the guest is %+v", guest)
	}
	got := do(w, admin.BotDecide, w.decide, worker, admin.BotDecideRequest{Ref: string(guest.ID), Cell: "c1"})
	if got.Member.Name != "Carol" || len(got.Member.DeviceList) != 1 {
		t.Errorf("made is %+v", got.Member)
	}
	if self := do(w, admin.BotWho, w.who, stranger, admin.BotWhoRequest{}); self.Standing != mesh.BotMember || self.State != "" {
		t.Errorf("the guest is %+v now", self)
	}
	if n := w.waiting(stranger); len(n) != 1 || n[0].Kind != mesh.NoticeApproved {
		t.Errorf("the guest is told %+v", n)
	}
	_, err = try(w, admin.BotDecide, w.decide, boss, admin.BotDecideRequest{Ref: string(guest.ID), State: mesh.TelegramDeclined})
	refused(t, err, mesh.ErrConflict, "answered already")
	_, err = try(w, admin.BotJoin, w.join, stranger, admin.BotJoinRequest{Name: "Carol"})
	refused(t, err, mesh.ErrConflict, "linked already")
}

func TestGuestsWhoAreNotLetIn(t *testing.T) {
	w := newWorld(t)
	w.admin("boss", mesh.AdminOwner, boss)
	decide := func(state mesh.TelegramState) {
		g := do(w, admin.BotGuests, w.guests, boss, admin.Page{}).Items[0]
		do(w, admin.BotDecide, w.decide, boss, admin.BotDecideRequest{Ref: string(g.ID), State: state})
	}
	ask := func() error {
		_, err := try(w, admin.BotJoin, w.join, stranger, admin.BotJoinRequest{Name: "x"})
		return err
	}
	for n := range asksPerDay {
		if err := ask(); err != nil {
			t.Fatal(n, err)
		}
		if n < asksPerDay-1 {
			decide(mesh.TelegramDeclined)
		}
	}
	if n := w.waiting(stranger); len(n) != asksPerDay-1 || n[0].Kind != mesh.NoticeDeclined {
		t.Errorf("the guest is told %+v", n)
	}
	decide(mesh.TelegramBlocked)
	refused(t, ask(), mesh.ErrDenied, "blocked")
	if self := do(w, admin.BotWho, w.who, stranger, admin.BotWhoRequest{}); self.State != mesh.TelegramBlocked || self.Standing != mesh.BotAnyone {
		t.Errorf("who is blocked is %+v", self)
	}
	decide(mesh.TelegramDeclined) // lifts it
	refused(t, ask(), mesh.ErrDenied, "too often")
	w.later.Store(int64(25 * time.Hour))
	if err := ask(); err != nil {
		t.Error(err)
	}
	w.settle(func(b *mesh.BotSettings) { b.NoGuests = true })
	_, err := try(w, admin.BotJoin, w.join, bob, admin.BotJoinRequest{Name: "x"})
	refused(t, err, mesh.ErrDenied, "nobody new")
}

func TestStrangersCannotFillTheStore(t *testing.T) {
	w := newWorld(t)
	w.write(func(tx *store.Tx) error { return nil })
	for batch := range maxAsking / 20 {
		w.write(func(tx *store.Tx) error {
			for n := range 20 {
				u := mesh.TelegramUser{ID: mesh.NewTelegramUserID(), Telegram: fmt.Sprint(10_000 + 20*batch + n), State: mesh.TelegramAsked}
				if err := store.Create(tx, w.Store.Telegram, u.ID, u); err != nil {
					return err
				}
			}
			return nil
		})
	}
	_, err := try(w, admin.BotJoin, w.join, stranger, admin.BotJoinRequest{Name: "x"})
	refused(t, err, mesh.ErrUnavailable, "too many wait")
	w.admin("boss", mesh.AdminOwner, boss)
	page := do(w, admin.BotGuests, w.guests, boss, admin.Page{Limit: 150})
	rest := do(w, admin.BotGuests, w.guests, boss, admin.Page{Limit: 150, After: page.Next})
	if len(page.Items) != 150 || len(rest.Items) != maxAsking-150 || rest.Next != "" {
		t.Errorf("pages of %d and %d", len(page.Items), len(rest.Items))
	}
}

func TestHelpGoesBothWays(t *testing.T) {
	w := newWorld(t)
	w.member("alice", alice)
	_, err := try(w, admin.BotHelp, w.help, alice, admin.BotHelpRequest{Text: "help"})
	refused(t, err, mesh.ErrUnavailable, "no operator")
	w.admin("boss", mesh.AdminOwner, boss)
	do(w, admin.BotHelp, w.help, alice, admin.BotHelpRequest{Name: "Alice", Text: "it does not work"})
	n := w.waiting(boss)[0]
	if n.Kind != mesh.NoticeHelp || n.Params["text"] != "it does not work" || n.Params["member"] != "alice" {
		t.Fatalf("the operator is told %+v", n)
	}
	_, err = try(w, admin.BotAnswer, w.answer, boss, admin.BotAnswerRequest{Message: 7, Text: "try again"})
	refused(t, err, mesh.ErrNotFound, "nobody's question")
	if err := w.Sent(t.Context(), n.ID, 7, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Sent(t.Context(), n.ID, 8, false); err != nil {
		t.Errorf("told a second time: %v", err)
	}
	do(w, admin.BotAnswer, w.answer, boss, admin.BotAnswerRequest{Message: 7, Text: "try again"})
	if got := w.waiting(alice); len(got) != 1 || got[0].Kind != mesh.NoticeAnswer || got[0].Params["text"] != "try again" {
		t.Errorf("she is told %+v", got)
	}
	w.admin("worker", mesh.AdminOperator, worker)
	_, err = try(w, admin.BotAnswer, w.answer, worker, admin.BotAnswerRequest{Message: 7, Text: "x"})
	refused(t, err, mesh.ErrNotFound, "nobody's question") // of another chat
	_, err = try(w, admin.BotHelp, w.help, alice, admin.BotHelpRequest{Text: " \n"})
	refused(t, err, mesh.ErrInvalid, "empty")
	for range helpsPerHour {
		_, err = try(w, admin.BotHelp, w.help, alice, admin.BotHelpRequest{Text: "x"})
	}
	refused(t, err, mesh.ErrDenied, "too often")
}

func TestUsersAreListedAndRuled(t *testing.T) {
	w := newWorld(t)
	o := w.admin("boss", mesh.AdminOwner, boss)
	w.admin("worker", mesh.AdminOperator, worker)
	w.member("alice", alice)
	l, err := w.userList(t.Context(), admin.Page{})
	if err != nil || len(l.Items) != 3 {
		t.Fatal(l, err)
	}
	yes, no := true, false
	op := w.owner(mesh.AdminOperator, "admin-x")
	if _, err := w.userSet(op, admin.BotUserSetRequest{Ref: alice.String(), Blocked: &yes}); err != nil {
		t.Fatal(err)
	}
	_, err = try(w, admin.BotOwn, w.own, alice, admin.None{})
	refused(t, err, mesh.ErrDenied, "blocked")
	if _, err := w.userSet(op, admin.BotUserSetRequest{Ref: alice.String(), Blocked: &no}); err != nil {
		t.Fatal(err)
	}
	do(w, admin.BotOwn, w.own, alice, admin.None{})
	_, err = w.userSet(op, admin.BotUserSetRequest{Ref: boss.String(), Unlink: true})
	refused(t, err, mesh.ErrDenied, "only an owner")
	if _, err = w.userSet(w.owner(mesh.AdminOwner, o.ID), admin.BotUserSetRequest{Ref: worker.String(), Unlink: true}); err != nil {
		t.Fatal(err)
	}
	_, err = try(w, admin.BotGuests, w.guests, worker, admin.Page{})
	refused(t, err, mesh.ErrDenied, "no administrator")
	_, err = w.userSet(op, admin.BotUserSetRequest{Ref: alice.String()})
	refused(t, err, mesh.ErrInvalid, "either")
	st, err := w.status(t.Context(), admin.None{})
	if err != nil || st.Linked != 2 || st.Configured || len(st.Problems) != 1 {
		t.Errorf("status is %+v, %v", st, err)
	}
}
