package bot_test

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// newOperated is an operator in a small network.
func newOperated(t *testing.T) (*conversation, *bottest.User, mesh.Member) {
	t.Helper()
	t.Parallel()
	c := &conversation{talk: newTalk(t), t: t, lang: "en"}
	op := c.somebody("Olga")
	c.operator(op, "olga")
	alice := c.member("Alice", 3)
	c.network(alice)
	return c, op, alice
}

// TestOperatorsChangeOnceWhatComesTwice delivers updates again, as after a crash
// between an effect and its answer.
func TestOperatorsChangeOnceWhatComesTwice(t *testing.T) {
	c, op, alice := newOperated(t)
	again := func(text string) {
		t.Helper()
		n := op.Write(text)
		c.api.Settle(t)
		c.api.Skip(n - 1)
		c.say(op, text)
	}
	again("/member add Bob")
	if !strings.Contains(op.Last().Plain, "This was done already") || !strings.Contains(op.Last().Plain, "Bob") {
		t.Errorf("the answer to what came twice is\n%s", op.Last().Plain)
	}
	again("/device add Alice tablet amsterdam")
	if n := len(c.hasDevices(alice)); n != 3 {
		t.Errorf("there are %d devices, want 3", n)
	}
	again("/token entry")
	tokens, _, err := c.store.Tokens.List(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Errorf("%d tokens were made, want one (%v)", len(tokens), err)
	}
	if !strings.Contains(op.Last().Plain, "the message with it was lost") {
		t.Errorf("the answer to what came twice is\n%s", op.Last().Plain)
	}
}

// TestASecondTapDoesNothing presses the same button twice, and one that is too late.
func TestASecondTapDoesNothing(t *testing.T) {
	c, op, _ := newOperated(t)
	c.say(op, "/core revoke core1")
	screen := op.Last()
	label := said("en").Plain("op.button.revoke")
	data := screen.DataOf(label)
	for range 2 {
		op.PressData(screen.ID, data, label)
	}
	c.api.Settle(t)
	revoked := 0
	audit, _, err := c.store.Audit.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range audit {
		if strings.HasPrefix(r.Action, "core.revoke") {
			revoked++
			if !strings.HasPrefix(string(r.Actor), "admin:") || r.Via != "telegram:"+mesh.TelegramID(op.ID).String() {
				t.Errorf("it is on record as done by %s, via %s", r.Actor, r.Via)
			}
		}
	}
	if revoked != 1 {
		t.Errorf("the core was revoked %d times", revoked)
	}
}

// TestATokenLeavesTheChatWhenItIsRevoked is one of its fates; the others are the
// server's to find.
func TestATokenLeavesTheChatWhenItIsRevoked(t *testing.T) {
	c, op, _ := newOperated(t)
	c.say(op, "/token core Alice amsterdam 10m")
	shown := c.hears(op, "meshctl core join")
	c.press(op, "op.button.revoke")
	c.api.Wait(t, "the token is gone from the chat", func() bool { return op.Message(shown.ID).Text == "" })
	c.hears(op, "was revoked")
	for _, m := range op.Messages() {
		if strings.Contains(m.Text, "meshctl1.") {
			t.Errorf("a token is still in the chat:\n%s", m.Text)
		}
	}
}

// TestAQuestionIsCalledOff: who goes elsewhere and writes something later does not
// answer what was asked before.
func TestAQuestionIsCalledOff(t *testing.T) {
	c, op, _ := newOperated(t)
	c.say(op, "/members")
	c.press(op, "op.button.add")
	c.press(op, "button.back")
	c.say(op, "hello")
	members, _, err := c.store.Members.List(t.Context())
	if err != nil || len(members) != 1 {
		t.Errorf("there are %d members, want Alice alone (%v)", len(members), err)
	}
}

// TestAnAdministratorWhoIsSuspendedOperatesNoMore presses a button that was shown
// before.
func TestAnAdministratorWhoIsSuspendedOperatesNoMore(t *testing.T) {
	c, op, _ := newOperated(t)
	c.say(op, "/core core1")
	admins, _, err := c.store.Admins.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id := range admins {
		c.suspend(id)
	}
	c.press(op, "op.button.drain")
	c.say(op, "/core drain core1")
	cores, _, err := c.store.Cores.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, core := range cores {
		if core.Drain {
			t.Errorf("core %s is drained", core.Name)
		}
	}
}

func TestALongBroadcastArrivesWhole(t *testing.T) {
	c, op, alice := newOperated(t)
	a := c.somebody("Alice")
	c.linked(a, mesh.TelegramUser{Member: alice.ID})
	c.say(op, "/broadcast")
	c.press(op, "op.button.all")
	c.say(op, strings.Repeat("ж", 2001))
	if !strings.Contains(op.Last().Plain, "too long") {
		t.Errorf("the answer to what is too long is\n%s", op.Last().Plain)
	}
	text := "Beginning " + strings.Repeat("ж", 1980) + " <end>"
	c.say(op, text)
	c.pressLabel(op, said("en").Plain("op.button.send", "n", said("en").Plain("op.broadcast.people", "n", 1)))
	if m := c.hears(a, "Beginning"); !strings.HasSuffix(m.Plain, text) {
		t.Errorf("%d of %d bytes arrived", len(m.Plain), len(text))
	}
}

func (c *conversation) suspend(id mesh.AdminID) {
	c.write(func(tx *store.Tx) error {
		return store.Update(tx, c.store.Admins, id, func(a *mesh.Administrator) error {
			a.Suspended = true
			return nil
		})
	})
}
