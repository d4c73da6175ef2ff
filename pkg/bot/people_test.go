package bot_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/bot"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// conversation is one with the bot: what everybody in it sees is kept, in each
// language.
type conversation struct {
	*talk
	t     *testing.T
	lang  string
	users int64
	parts []*bottest.User
}

// inBoth has a conversation in both languages at once.
func inBoth(t *testing.T, name string, hold func(*conversation)) {
	t.Parallel()
	for _, lang := range []string{"en", "ru"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			c := &conversation{talk: newTalk(t), t: t, lang: lang}
			hold(c)
			var b strings.Builder
			for _, u := range c.parts {
				b.WriteString("=== " + u.Name + "\n" + u.Transcript(0))
			}
			bot.SameAs(t, filepath.Join("testdata", "golden", lang, name+".txt"), plain(b.String()))
		})
	}
}

// somebody is another person in the conversation.
func (c *conversation) somebody(name string) *bottest.User {
	c.users++
	u := c.api.User(100+c.users, name, c.lang)
	c.parts = append(c.parts, u)
	return u
}

// say writes and waits for the answers.
func (c *conversation) say(u *bottest.User, text string) {
	c.t.Helper()
	u.Write(text)
	c.api.Settle(c.t)
}

// press presses a button of the last message that has one with the text of that
// key, and waits for the answers.
func (c *conversation) press(u *bottest.User, key string) {
	c.t.Helper()
	c.pressLabel(u, said(c.lang).Plain(key))
}

func (c *conversation) pressLabel(u *bottest.User, label string) {
	c.t.Helper()
	all := u.Messages()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].DataOf(label) != "" {
			u.Press(all[i].ID, label)
			c.api.Settle(c.t)
			return
		}
	}
	c.t.Fatalf("no message has a button %q; the last is\n%s\n%q", label, u.Last().Text, buttonsOf(u))
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words are a text without its tags.
func words(html string) string { return tags.ReplaceAllString(html, "") }

func buttonsOf(u *bottest.User) [][]string {
	m := u.Last()
	return m.Buttons()
}

// hears waits for a message that has the words.
func (c *conversation) hears(u *bottest.User, words string) bottest.Message {
	c.t.Helper()
	var heard bottest.Message
	c.api.Wait(c.t, u.Name+" hears "+words, func() bool {
		for _, m := range u.Messages() {
			if strings.Contains(m.Plain, words) {
				heard = m
				return true
			}
		}
		return false
	})
	return heard
}

// plain takes out of a transcript what is another one each time.
func plain(s string) string {
	for _, r := range []struct{ what, by string }{
		{`\b(member|device|cell|core|entry|tg|token|admin)-[a-z2-7]{16}\b`, "$1-…"},
		{`https://sub\.example\.net/s/[A-Za-z0-9_-]+`, "https://sub.example.net/s/…"},
		{`\b\d{1,2} [A-Z][a-z]{2} \d{4}\b`, "DAY"},
		{`\b\d{2}\.\d{2}\.\d{4}\b`, "DAY"},
		{`\b\d{2}:\d{2} UTC\b`, "TIME"},
		{`meshctl1\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`, "meshctl1.…"},
		{`(<tg-spoiler>)[A-Za-z0-9-]{20,}(</tg-spoiler>)`, "${1}CODE$2"},
		{`core2, core1`, "core1, core2"}, // at random
		{`\b[1-9] minutes? ago\b`, "just now"}, {`[1-9] минут[уы]? назад`, "только что"},
		{`\b5\d minutes\b`, "59 minutes"}, {`5\d минут[уы]?`, "59 минут"},
	} {
		s = regexp.MustCompile(r.what).ReplaceAllString(s, r.by)
	}
	return s
}

func TestAGuestIsTakenIn(t *testing.T) {
	inBoth(t, "guest-approved", func(c *conversation) {
		guest, op := c.somebody("Bob"), c.somebody("Olga")
		c.operator(op, "olga")
		owner := c.member("Carol", 0)
		c.cell("amsterdam", owner.ID, "core1", "core2")
		c.say(guest, "/start")
		c.press(guest, "button.join")
		c.say(guest, "Carol told me, <b>please</b>")
		c.hears(op, "Carol told me")
		c.say(guest, "/join")
		c.press(op, "guests.button.approve")
		c.pressLabel(op, "amsterdam")
		c.pressLabel(op, "🟢 core2")
		c.hears(guest, "Bob")
		c.press(guest, "button.devices")
		c.pressLabel(guest, "🟡 device-1")
	})
}

func TestAGuestIsSentAway(t *testing.T) {
	inBoth(t, "guest-declined", func(c *conversation) {
		guest, op := c.somebody(`<b>_*[x](tg://user?id=1) 😀`), c.somebody("Olga")
		c.operator(op, "olga")
		c.say(guest, "/join Let me in")
		c.hears(op, "Let me in")
		c.press(op, "guests.button.decline")
		c.hears(guest, words(said(c.lang).HTML("notice.declined")))
		c.say(guest, "/start")
		c.say(guest, "/join Please")
		c.hears(op, "Please")
		c.say(op, "/guests")
		c.pressLabel(op, guest.Name)
		c.press(op, "guests.button.block")
		c.press(op, "guests.button.block")
		before := len(guest.Messages())
		c.say(guest, "/start")
		if got := len(guest.Messages()); got != before {
			c.t.Errorf("somebody who is blocked got an answer:\n%s", guest.Transcript(0))
		}
	})
}

func TestACodeLinks(t *testing.T) {
	inBoth(t, "code", func(c *conversation) {
		u := c.somebody("Alice")
		m := c.member("Alice", 2)
		c.code("abcdefghijklmnopqrst", mesh.TelegramCode{Member: m.ID})
		c.say(u, "/link")
		c.say(u, "abcdefghijklmnopqrsx")
		c.say(u, "/start ABCDE-FGHIJ-KLMNO-PQRST")
		c.say(u, "/start abcdefghijklmnopqrst")
		c.say(u, "/unlink")
		c.press(u, "unlink.button")
		c.say(u, "/devices")
	})
}

func TestAMemberLooksAround(t *testing.T) {
	inBoth(t, "member", func(c *conversation) {
		u := c.somebody("Alice")
		m := c.member("Alice", 3)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		cell := c.cell("amsterdam", m.ID, "core1")
		c.device(m, "phone", cell, mesh.Limits{Traffic: 100e9, Expires: time.Now().Add(30*24*time.Hour + time.Hour)})
		c.device(m, "laptop", cell, mesh.Limits{})
		c.say(u, "/start")
		c.pressLabel(u, "🟢 phone")
		c.press(u, "button.back")
		c.press(u, "button.cores")
		c.say(u, "/devices tablet")
		c.say(u, "hello?")
		other := map[string]string{"en": "ru", "ru": "en"}[c.lang]
		c.say(u, "/language")
		c.press(u, "language.names."+other)
		c.say(u, "/start")
	})
}

func TestAMemberAddsADevice(t *testing.T) {
	inBoth(t, "member-add", func(c *conversation) {
		u := c.somebody("Alice")
		m := c.member("Alice", 2)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		c.cell("amsterdam", m.ID, "core1")
		c.cell("berlin", m.ID, "core2")
		c.say(u, "/start")
		c.press(u, "button.add")
		c.pressLabel(u, "berlin")
		c.say(u, strings.Repeat("x", 200))
		c.say(u, "phone")
		c.say(u, "/add phone")
		c.say(u, "laptop")
		c.say(u, "/add third")
	})
}

func TestAMemberGetsALink(t *testing.T) {
	inBoth(t, "member-link", func(c *conversation) {
		u := c.somebody("Alice")
		m := c.member("Alice", 2)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		cell := c.cell("amsterdam", m.ID, "core1")
		c.device(m, "phone", cell, mesh.Limits{})
		c.say(u, "/qr")
		c.press(u, "device.link.button")
		c.press(u, "button.back")
		c.press(u, "device.button.link")
		c.press(u, "button.cancel")
		c.say(u, "/lost phone")
		c.press(u, "device.rotate.button")
	})
}

func TestAMemberIsHelped(t *testing.T) {
	inBoth(t, "member-help", func(c *conversation) {
		u, op := c.somebody("Alice"), c.somebody("Olga")
		c.operator(op, "olga")
		m := c.member("Alice", 2)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		c.say(u, "/ask")
		c.say(u, "It is <slow> today")
		asked := c.hears(op, "It is <slow> today")
		c.api.Wait(c.t, "it is known whose question that is", func() bool {
			all, _, err := c.store.Threads.List(c.t.Context())
			return err == nil && len(all) > 0
		})
		op.Reply(asked.ID, "We look at it")
		answered := c.hears(u, "We look at it")
		u.Reply(answered.ID, "Thank you")
		c.hears(op, "Thank you")
		op.Reply(c.hears(op, words(said(c.lang).HTML("answer.done"))).ID, "to nobody")
		c.api.Settle(c.t)
	})
}

func TestAnOperatorIsGreeted(t *testing.T) {
	inBoth(t, "operator-home", func(c *conversation) {
		op := c.somebody("Olga")
		a := mesh.Administrator{ID: mesh.NewAdminID(), Name: "olga", Role: mesh.AdminOwner, Created: time.Now()}
		c.write(func(tx *store.Tx) error { return store.Create(tx, c.store.Admins, a.ID, a) })
		c.code("abcdefghijklmnopqrst", mesh.TelegramCode{Admin: a.ID})
		m := c.member("Olga", 2)
		c.code("bcdefghijklmnopqrstu", mesh.TelegramCode{Member: m.ID})
		c.say(op, "/start abcdefghijklmnopqrst")
		c.say(op, "/link bcdefghijklmnopqrstu")
		c.say(op, "/help")
		c.say(op, "/guests")
	})
}

// TestWhatIsAskedForTwiceIsDoneOnce delivers updates again, as after a crash
// between an effect and its answer.
func TestWhatIsAskedForTwiceIsDoneOnce(t *testing.T) {
	inBoth(t, "twice", func(c *conversation) {
		u, guest, op := c.somebody("Alice"), c.somebody("Bob"), c.somebody("Olga")
		c.operator(op, "olga")
		m := c.member("Alice", 5)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		d := c.device(m, "phone", c.cell("amsterdam", m.ID, "core1"), mesh.Limits{})
		again := func(u *bottest.User, text string) {
			c.t.Helper()
			n := u.Write(text)
			c.api.Settle(c.t)
			c.api.Skip(n - 1)
			c.say(u, text)
		}
		again(u, "/add laptop")
		again(u, "/ask What now?")
		again(guest, "/join Please")
		c.hears(op, "Please")
		c.say(u, "/lost phone")
		rotate := u.Last()
		label := said(c.lang).Plain("device.rotate.button")
		data := rotate.DataOf(label)
		for range 2 { // a double tap: the second one comes of a screen that is no more
			u.PressData(rotate.ID, data, label)
			c.api.Settle(c.t)
		}
		now, err := c.store.Devices.Get(c.t.Context(), d.ID)
		if err != nil || len(now.Value.Labels) > 2 {
			c.t.Errorf("the device has %d labels (%v)", len(now.Value.Labels), err)
		}
		if n := len(c.hasDevices(m)); n != 2 {
			c.t.Errorf("there are %d devices, want 2", n)
		}
		helps := 0
		for _, m := range op.Messages() {
			if strings.Contains(m.Plain, "What now?") {
				helps++
			}
		}
		if helps != 1 {
			c.t.Errorf("the operator was asked %d times", helps)
		}
	})
}

func (c *conversation) hasDevices(m mesh.Member) []mesh.Device {
	c.t.Helper()
	all, _, err := c.store.Devices.List(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	var out []mesh.Device
	for _, d := range all {
		if d.Member == m.ID {
			out = append(out, d)
		}
	}
	return out
}

func TestNoSecretIsShownWhereNoneShallBe(t *testing.T) {
	inBoth(t, "no-secrets", func(c *conversation) {
		u, stranger := c.somebody("Alice"), c.somebody("Mallory")
		m := c.member("Alice", 2)
		c.linked(u, mesh.TelegramUser{Member: m.ID})
		c.device(m, "phone", c.cell("amsterdam", m.ID, "core1"), mesh.Limits{})
		c.settings(func(cfg *mesh.Config) { cfg.Bot.NoSecrets, cfg.Bot.NoGuests = true, true })
		c.say(u, "/qr")
		c.say(u, "/lost")
		c.say(stranger, "/start")
		c.say(stranger, "/join please")
		c.say(stranger, "/link")
		if len(stranger.Messages()) > 0 {
			c.t.Errorf("a stranger got an answer:\n%s", stranger.Transcript(0))
		}
	})
}
