package bot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func said(u *bottest.User) []string {
	var out []string
	for _, m := range u.Messages() {
		out = append(out, m.Plain)
	}
	return out
}

func numbered(name string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s %d", name, i))
	}
	return out
}

// TestNoticesArriveInOrder: to each chat, whatever fails in between, and one chat
// that has to wait keeps back no other.
func TestNoticesArriveInOrder(t *testing.T) {
	o := newOffice(t)
	ann, bob := o.person(7, "Ann", "en", operatorSelf()), o.person(8, "Bob", "en", memberSelf())
	failed := 0
	o.api.Fail(func(c bottest.Call) *bottest.Fault {
		if c.Method == "sendMessage" && c.Params["chat_id"] == "7" {
			if failed++; failed == 2 {
				return &bottest.Fault{Code: 429, Description: "Too Many Requests: retry after 1", RetryAfter: 1}
			} else if failed == 5 {
				return &bottest.Fault{Code: 502, Body: "<html>"}
			}
		}
		return nil
	})
	o.notify(7, numbered("ann", 6)...)
	o.notify(8, numbered("bob", 6)...)
	o.run(simple())
	o.api.Wait(t, "Bob has all", func() bool { return len(bob.Messages()) == 6 })
	if n := len(ann.Messages()); n == 6 {
		t.Log("Ann did not have to wait; the machine is slow")
	}
	o.api.Wait(t, "Ann has all", func() bool { return len(ann.Messages()) >= 6 })
	o.api.Wait(t, "all are settled", func() bool { return len(o.settled()) == 12 })
	if got := said(ann); !slices.Equal(got, numbered("ann", 6)) {
		t.Errorf("Ann got %q", got)
	}
	if got := said(bob); !slices.Equal(got, numbered("bob", 6)) {
		t.Errorf("Bob got %q", got)
	}
	for _, s := range o.settled() {
		if s.message == 0 || s.dropped {
			t.Errorf("settled: %+v", s)
		}
	}
}

// TestWhatNobodyTakesIsDropped: the chat is gone, the text is refused, it is too
// old, or for nobody the server knows.
func TestWhatNobodyTakesIsDropped(t *testing.T) {
	o := newOffice(t)
	ann, bob := o.person(7, "Ann", "en", operatorSelf()), o.person(8, "Bob", "en", memberSelf())
	bob.Block(true)
	o.notify(8, "to who blocked the bot")
	o.notify(9, "to who never wrote")
	o.notify(7, "", "<b>", "late", "last")
	o.set(func() {
		o.outbox[4].Created = time.Now().Add(-25 * time.Hour)
		o.outbox = append(o.outbox, mesh.Notice{ID: "00000006", To: mesh.ToHook("x"), Created: time.Now()},
			mesh.Notice{ID: "00000007", To: mesh.ToTelegram("-100"), Created: time.Now()})
	})
	o.run(simple())
	o.api.Wait(t, "all are settled", func() bool { return len(o.settled()) == 7 })
	var dropped []string
	for _, s := range o.settled() {
		if s.dropped {
			dropped = append(dropped, s.id)
		}
	}
	slices.Sort(dropped)
	if want := []string{"00000000", "00000001", "00000002", "00000003", "00000004", "00000007"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped are %v, want %v", dropped, want)
	}
	if got := said(ann); !slices.Equal(got, []string{"last"}) {
		t.Errorf("Ann got %q", got)
	}
}

// TestNoticesSurviveTheBot: what was not settled is sent by the next one; the
// message that goes away with a notice is gone.
func TestNoticesSurviveTheBot(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	_, end := o.run(simple())
	ann.Write("/start")
	o.api.Settle(t)
	shown := ann.Last().ID
	o.api.Fail(func(c bottest.Call) *bottest.Fault {
		if c.Method == "sendMessage" {
			return &bottest.Fault{Code: 502, Body: "<html>"}
		}
		return nil
	})
	o.notify(7, "one", "two")
	o.set(func() { o.outbox[0].Delete = int64(shown) })
	o.api.Wait(t, "it was tried", func() bool { return len(o.api.Calls("sendMessage")) > 1 })
	end()
	o.api.Fail(nil)
	o.run(simple())
	o.api.Wait(t, "all are settled", func() bool { return len(o.settled()) == 2 })
	if got := said(ann); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("Ann got %q", got)
	}
	// The stream may end, too: what comes later comes.
	o.set(func() { close(o.stream); o.stream = make(chan struct{}) })
	o.notify(7, "three")
	o.api.Wait(t, "the rest is settled", func() bool { return len(o.settled()) == 3 })
	if got := said(ann); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("Ann got %q", got)
	}
}

// TestNoticesAreInTheLanguageOfWhoGetsThem.
func TestNoticesAreInTheLanguageOfWhoGetsThem(t *testing.T) {
	o := newOffice(t)
	self := memberSelf()
	self.Language = "ru"
	bob := o.person(8, "Bob", "en", self)
	cid := o.person(9, "Cid", "ru", memberSelf())
	routes := simple()
	routes.Notice = func(s *Session, _ mesh.Notice) Screen { return Screen{Text: s.T.HTML("fail.done")} }
	o.run(routes)
	cid.Write("/start") // nothing was chosen: as the app last said
	o.api.Settle(t)
	o.notify(8, "x")
	o.notify(9, "x")
	o.api.Wait(t, "all are settled", func() bool { return len(o.settled()) == 2 })
	for _, u := range []*bottest.User{bob, cid} {
		if got := u.Last().Plain; !strings.Contains(got, "Это уже сделано") {
			t.Errorf("%s got %q", u.Name, got)
		}
	}
}

// TestABroadcastKeepsTheLimits: a thousand chats take as long as Telegram wants.
func TestABroadcastKeepsTheLimits(t *testing.T) {
	o := newOffice(t)
	var users []*bottest.User
	for i := range int64(60) {
		users = append(users, o.person(100+i, "Member", "en", admin.BotSelf{Standing: mesh.BotMember, Member: "m"}))
		o.notify(100+i, "hello")
	}
	o.run(simple(), func(b *Bot) { b.Telegram.PerChat = 0 })
	o.api.Wait(t, "all are settled", func() bool { return len(o.settled()) == len(users) })
	calls := o.api.Calls("sendMessage")
	most, first := 0, 0
	for i, c := range calls {
		for c.At.Sub(calls[first].At) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	if most > 35 || len(calls) != len(users) { // the fake counts arrivals, which may bunch
		t.Errorf("%d of %d messages in a second", most, len(calls))
	}
}

func TestAlertsOvertakeWhatIsNone(t *testing.T) {
	order := func(q chatQueue) (out string) {
		for _, n := range q.notices {
			out += n.ID
		}
		return out
	}
	for _, busy := range []bool{false, true} {
		q := chatQueue{busy: busy, notices: []mesh.Notice{{ID: "a", Kind: mesh.NoticeGuest}}}
		for _, n := range []mesh.Notice{
			{ID: "b", Kind: mesh.NoticeGuest}, {ID: "1", Kind: mesh.NoticeAlert}, {ID: "c", Kind: mesh.NoticeBroadcast}, {ID: "2", Kind: mesh.NoticeResolved},
		} {
			q.add(n)
		}
		want := map[bool]string{false: "12abc", true: "a12bc"}[busy]
		if got := order(q); got != want {
			t.Errorf("busy %v: %s, want %s", busy, got, want)
		}
	}
}
