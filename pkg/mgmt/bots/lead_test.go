package bots

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// event writes one as whoever notices it does.
func (w *world) event(kind mesh.EventType, object string) {
	w.t.Helper()
	if _, err := w.Store.Update(w.t.Context(), func(tx *store.Tx) error { return tx.Event(mesh.Event{Type: kind, Object: object}) }); err != nil {
		w.t.Fatal(err)
	}
}

// events are those of the type, newest first.
func (w *world) events(kind mesh.EventType) []mesh.Event {
	w.t.Helper()
	items, _, err := w.Store.Events.Latest(w.t.Context(), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []mesh.Event
	for _, it := range items {
		if it.Value.Type == kind {
			out = append(out, it.Value)
		}
	}
	return out
}

func TestMembersHearOfWhatConcernsThem(t *testing.T) {
	w := newWorld(t)
	a, c := w.member("alice", alice), w.cell("c1")
	w.member("bob", bob)
	core := w.core("hers", a, c)
	w.device("phone", a, c, mesh.Limits{Expires: time.Now().Add(48 * time.Hour)})
	spent := w.device("laptop", a, c, mesh.Limits{})
	stop := w.lead()
	w.told(alice, mesh.NoticeExpiring)
	w.until("the version is known", func() bool {
		st, err := w.state(t.Context())
		return err == nil && st.Told.Versions[core.ID] == "v1" && st.Told.Events > 0
	})
	w.event(mesh.EventCoreReady, "core/"+string(core.ID)) // for the first time
	w.event(mesh.EventCoreLost, "core/"+string(core.ID))
	if n := w.told(alice, mesh.NoticeCoreLost); n.Params["core"] != "hers" {
		t.Errorf("she is told %+v", n)
	}
	stop()
	// What happens while nobody leads, the next leader tells.
	w.event(mesh.EventCoreReady, "core/"+string(core.ID))
	w.event(mesh.EventQuotaReached, mesh.ObjectDevice+string(spent.ID))
	w.event(mesh.EventCellCompromised, "cell/"+string(c.ID))
	w.write(func(tx *store.Tx) error {
		cert := mesh.CertRecord{Serial: "1", Node: "core/" + string(core.ID), NotAfter: time.Now().Add(time.Hour)}
		if err := store.Create(tx, w.Store.Certs, cert.Serial, cert); err != nil {
			return err
		}
		return store.Update(tx, w.Store.Cores, core.ID, func(c *mesh.Core) error { c.Version = "v2"; return nil })
	})
	w.event(mesh.EventCertExpiring, "core/"+string(core.ID))
	w.lead()
	w.told(alice, mesh.NoticeCoreBack)
	w.told(alice, mesh.NoticeSpent)
	w.told(alice, mesh.NoticeCoreCert)
	if n := w.told(alice, mesh.NoticeCoreNew); n.Params["version"] != "v2" {
		t.Errorf("she is told %+v", n)
	}
	if n := w.told(alice, mesh.NoticeCellMoved); n.Params["state"] != "compromised" {
		t.Errorf("she is told %+v", n)
	}
	if got := w.waiting(bob); len(got) != 0 {
		t.Errorf("he is told %+v", got)
	}
	count := map[mesh.NoticeKind]int{}
	for _, n := range w.waiting(alice) {
		count[n.Kind]++
	}
	for kind, n := range count {
		if n != 1 {
			t.Errorf("%s is told %d times", kind, n)
		}
	}
}

func TestATokenThatWasShownGoesAway(t *testing.T) {
	w := newWorld(t)
	w.admin("boss", mesh.AdminOwner, boss)
	make := func(life time.Duration, message int64) mesh.Token {
		tok := mesh.Token{ID: mesh.NewTokenID(), Role: mesh.RoleCore, Name: "new", Expires: w.now().Add(life)}
		w.write(func(tx *store.Tx) error { return store.Create(tx, w.Store.Tokens, tok.ID, tok) })
		do(w, admin.BotShown, w.tokenShown, boss, mesh.TelegramShown{Token: tok.ID, Chat: "1", Message: message})
		return tok
	}
	used, over, revoked, open := make(time.Hour, 1), make(time.Second, 2), make(time.Hour, 3), make(2*time.Hour, 4)
	core := w.core("core-1", mesh.Member{ID: "member-a"}, mesh.Cell{ID: "cell-a"})
	w.lead()
	set := func(id mesh.TokenID, f func(*mesh.Token)) {
		w.write(func(tx *store.Tx) error {
			return store.Update(tx, w.Store.Tokens, id, func(t *mesh.Token) error { f(t); return nil })
		})
	}
	set(used.ID, func(t *mesh.Token) {
		t.Used = &mesh.TokenUse{Node: "core/" + string(core.ID), From: "192.0.2.7", At: w.now()}
	})
	set(revoked.ID, func(t *mesh.Token) { t.Revoked = true })
	byMessage := map[int64]mesh.Notice{}
	w.until("three are told", func() bool {
		for _, n := range w.waiting(boss) {
			byMessage[n.Delete] = n
		}
		return len(byMessage) == 3
	})
	if n := byMessage[1]; n.Kind != mesh.NoticeTokenUsed || n.Params["name"] != "core-1" || n.Params["address"] != "192.0.2.7" {
		t.Errorf("of the used one is told %+v", n)
	}
	if n := byMessage[2]; n.Params["token"] != string(over.ID) || n.Params["state"] != "expired" || n.Params["role"] != "core" {
		t.Errorf("of the one that is over is told %+v", n)
	}
	if n := byMessage[3]; n.Params["state"] != "revoked" {
		t.Errorf("of the revoked one is told %+v", n)
	}
	if left, _, err := w.Store.Shown.List(t.Context()); err != nil || len(left) != 1 || left[open.ID].Message != 4 {
		t.Errorf("shown are still %v, %v", left, err)
	}
}

func TestABroadcastReachesEachOnce(t *testing.T) {
	w := newWorld(t)
	w.admin("boss", mesh.AdminOwner, boss)
	c := w.cell("c1")
	const n = 2*spreadBatch + 3
	for i := range n {
		m := w.member(fmt.Sprint("member ", i), mesh.TelegramID(10_000+i))
		w.device("phone", m, c, mesh.Limits{})
	}
	w.write(func(tx *store.Tx) error {
		m := w.Admin.NewMember("not linked", "")
		return store.Create(tx, w.Store.Members, m.ID, m)
	})
	if v := do(w, admin.BotBroadcast, w.broadcast, boss, admin.BotBroadcastRequest{Text: "hello"}); v.Recipients != n || v.Unlinked != 1 || len(w.waiting(boss)) != 0 {
		t.Errorf("the preview is %+v", v)
	}
	do(w, admin.BotBroadcast, w.broadcast, boss, admin.BotBroadcastRequest{Text: "hello", Cell: "c1", Send: true})
	ctx, err := again(w, admin.BotBroadcast, boss)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.broadcast(ctx, admin.BotBroadcastRequest{Text: "hello", Cell: "c1", Send: true})
	refused(t, err, store.ErrDone, "")
	ids, _, err := w.Store.Outbox.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatal(len(ids), err)
	}
	for id := range ids {
		if more, err := w.spread(t.Context(), id); err != nil || !more {
			t.Fatal(more, err) // the leader that began is gone
		}
	}
	w.lead()
	w.until("it is spread", func() bool {
		all, _, err := w.Store.Outbox.List(t.Context())
		return err == nil && len(all) == n
	})
	for i := range n {
		if got := w.waiting(mesh.TelegramID(10_000 + i)); len(got) != 1 || got[0].Params["text"] != "hello" || len(got[0].Params) != 1 {
			t.Fatalf("member %d is told %+v", i, got)
		}
	}
}

func TestNoticesAreHandedOutInOrderAndOnce(t *testing.T) {
	w := newWorld(t)
	if err := w.Hand(t.Context(), false, nil); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("who does not lead hands out: %v", err)
	}
	post := func(to, text string) {
		w.write(func(tx *store.Tx) error { return w.tell(tx, to, mesh.NoticeBroadcast, map[string]string{"text": text}) })
	}
	post(mesh.ToTelegram("1"), "a")
	post(mesh.ToHook("h"), "hook")
	stop := w.lead()
	type stream struct {
		got  chan mesh.Notice
		done chan error
	}
	open := func(hooks bool) stream {
		s := stream{make(chan mesh.Notice, 10), make(chan error, 1)}
		go func() {
			s.done <- w.Hand(t.Context(), hooks, func(n mesh.Notice) error { s.got <- n; return nil })
		}()
		return s
	}
	chats, hooks := open(false), open(true)
	first := <-chats.got
	post(mesh.ToTelegram("2"), "b")
	second := <-chats.got
	if first.Params["text"] != "a" || second.Params["text"] != "b" || (<-hooks.got).Params["text"] != "hook" {
		t.Errorf("handed out are %+v, %+v", first, second)
	}
	if err := w.Sent(t.Context(), first.ID, 5, false); err != nil {
		t.Fatal(err)
	}
	post(mesh.ToTelegram("3"), "c")
	if n := <-chats.got; n.Params["text"] != "c" {
		t.Errorf("then comes %+v", n)
	}
	again := open(false)
	if n := <-again.got; n.Params["text"] != "b" {
		t.Errorf("a new stream begins with %+v", n)
	}
	stop()
	for _, s := range []stream{chats, hooks, again} {
		if err := <-s.done; mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("after the office is lost: %v", err)
		}
	}
}

func TestWhatWaitsTooLongIsDroppedAndTold(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.write(func(tx *store.Tx) error { return w.tell(tx, mesh.ToTelegram("1"), mesh.NoticeBroadcast, nil) })
	}
	w.later.Store(int64(noticeLife + time.Minute))
	w.write(func(tx *store.Tx) error { return w.tell(tx, mesh.ToTelegram("1"), mesh.NoticeBroadcast, nil) })
	w.lead()
	w.until("the old are gone", func() bool { all, _, err := w.Store.Outbox.List(t.Context()); return err == nil && len(all) == 1 })
	if e := w.events(mesh.EventNoticesDropped); len(e) != 1 || !strings.HasSuffix(e[0].Cause, ": 3") {
		t.Errorf("told is %+v", e)
	}
}

func TestHowTheBotGoesIsToldOnce(t *testing.T) {
	w := newWorld(t)
	if w.Order() != nil {
		t.Error("there is a bot without a token")
	}
	w.Connection = Connection{Token: "123:secret", APIs: []string{"https://api.example"}}
	if o := w.Order(); o == nil || o.Token != "123:secret" || o.Mesh != w.Mesh {
		t.Errorf("ordered is %+v", o)
	}
	stop := w.lead()
	state := func(want mesh.BotConnection) mesh.BotState {
		var st mesh.BotState
		w.until("the state is "+string(want), func() bool {
			var err error
			st, err = w.state(t.Context())
			return err == nil && st.State == want && st.Down.IsZero() == (want == mesh.BotWorking)
		})
		return st
	}
	w.Ended(chores.BotOutcome{State: mesh.BotWorking, Username: "our_bot", Updates: 3})
	if st := state(mesh.BotWorking); st.Username != "our_bot" || st.Server != w.Server {
		t.Errorf("the state is %+v", st)
	}
	w.Ended(chores.BotOutcome{State: mesh.BotConflict, Failures: 1})
	state(mesh.BotConflict)
	stop()
	stop = w.lead() // the next leader knows that it was told
	w.Ended(chores.BotOutcome{State: mesh.BotConflict, Failures: 1})
	if st := state(mesh.BotConflict); st.Username != "our_bot" {
		t.Errorf("the name is forgotten: %+v", st)
	}
	w.Ended(chores.BotOutcome{State: mesh.BotWorking})
	state(mesh.BotWorking)
	w.Ended(chores.BotOutcome{State: mesh.BotNetwork})
	w.later.Store(int64(downAfter + time.Minute))
	state(mesh.BotNetwork)
	if n := collected(t, w.Service, "meshctl_bot_up"); n != 1 {
		t.Errorf("there are %d metrics of the leader", n)
	}
	stop()
	if n := collected(t, w.Service, "meshctl_bot_up"); n != 0 {
		t.Errorf("there are %d metrics of who does not lead", n)
	}
	if s, d, u := w.events(mesh.EventBotTokenShared), w.events(mesh.EventBotDown), w.events(mesh.EventBotUp); len(s) != 1 || len(d) != 1 || len(u) != 1 || s[0].Object != botObject {
		t.Errorf("told is %+v, %+v, %+v", s, d, u)
	}
	st, err := w.status(t.Context(), admin.None{})
	if err != nil || len(st.Problems) != 1 || !strings.Contains(st.Problems[0], "does not answer") {
		t.Errorf("status is %+v, %v", st, err)
	}
}

func TestWhatEndsIsToldOnceInBatches(t *testing.T) {
	w := newWorld(t)
	a, c := w.member("alice", alice), w.cell("c1")
	at := w.now().Add(time.Hour)
	for n := range 2*endsBatch + 1 {
		w.device(fmt.Sprint("d", n), a, c, mesh.Limits{Expires: at.Add(time.Duration(n/3) * time.Minute)})
	}
	w.device("later", a, c, mesh.Limits{Expires: at.Add(100 * time.Hour)})
	run := func() {
		for more := true; more; {
			var err error
			if more, err = w.tellEnds(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	run()
	if n := len(w.waiting(alice)); n != 2*endsBatch+1 {
		t.Errorf("%d are told, want %d", n, 2*endsBatch+1)
	}
	w.later.Store(int64(50 * time.Hour))
	run()
	if n := len(w.waiting(alice)); n != 2*endsBatch+2 {
		t.Errorf("%d are told then", n)
	}
}

// collected is how many series of a metric there are.
func collected(t *testing.T, s *Service, name string) int {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range s.Collectors() {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}
	return 0
}
