package bot

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/bot/bottest"
)

// crowd are operators, each with a menu.
func crowd(t testing.TB, n int) (*office, []*bottest.User) {
	o := newOffice(t)
	users := make([]*bottest.User, n)
	for i := range users {
		self := operatorSelf()
		self.Admin = fmt.Sprint("admin", i)
		users[i] = o.person(int64(1000+i), self.Admin, "en", self)
	}
	o.run(simple(), func(b *Bot) { b.Telegram.PerChat = 1000 })
	for _, u := range users {
		u.Write("/start")
	}
	o.api.Settle(t)
	return o, users
}

// TestFiftyOperatorsTapAtOnce: each is answered, in order, and what they make is
// made once each.
func TestFiftyOperatorsTapAtOnce(t *testing.T) {
	o, users := crowd(t, 50)
	var wg sync.WaitGroup
	for _, u := range users {
		wg.Go(func() {
			menu := u.Last()
			u.Press(menu.ID, "Make")
			u.PressData(menu.ID, menu.DataOf("Make"), "Make")
			for i := range 5 {
				u.Write(fmt.Sprintf("/make %s-%d", u.Name, i))
			}
		})
	}
	wg.Wait()
	o.api.Settle(t)
	made := map[string]int{}
	for _, name := range o.all() {
		made[name]++
	}
	if made["x"] != 50 || len(made) != 251 {
		t.Errorf("made are %d things, x %d times", len(made), made["x"])
	}
	for _, u := range users {
		want := []string{"made x"}
		for i := range 5 {
			want = append(want, fmt.Sprintf("made %s-%d", u.Name, i))
		}
		if got := said(u); !slices.Equal(got, want) {
			t.Errorf("%s got %q", u.Name, got)
		}
	}
}

// TestWhoFloodsIsCountedAndKeepsNobodyWaiting.
func TestWhoFloodsIsCountedAndKeepsNobodyWaiting(t *testing.T) {
	o, users := crowd(t, 2)
	for range 300 {
		users[0].Write("flood")
	}
	users[1].Press(users[1].Last().ID, "Next")
	o.api.Settle(t)
	if got := users[1].Last().Plain; got != "page 1" {
		t.Errorf("got %q", got)
	}
	if n := len(users[0].Messages()); n > 301 || n < maxQueue {
		t.Errorf("%d messages to the one who floods", n)
	}
}

// BenchmarkFiftyOperators is one tap of each, answered.
func BenchmarkFiftyOperators(b *testing.B) {
	o, users := crowd(b, 50)
	for b.Loop() {
		for _, u := range users {
			u.Press(u.Last().ID, "Next")
		}
		o.api.Settle(b)
		b.StopTimer()
		for _, u := range users { // or the pages get too long for a button
			u.Write("/start")
		}
		o.api.Settle(b)
		b.StartTimer()
	}
	b.ReportMetric(float64(50*b.N)/b.Elapsed().Seconds(), "taps/s")
}
