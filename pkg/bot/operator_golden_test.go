package bot_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// operated has a conversation of one operator's in a small network: two cells, three
// cores of Alice's of which one is lost, two entries of which one is gone.
func operated(t *testing.T, name string, hold func(c *conversation, op *bottest.User, alice mesh.Member)) {
	inBoth(t, name, func(c *conversation) {
		op := c.somebody("Olga")
		c.operator(op, "olga")
		alice := c.member("Alice", 3)
		c.network(alice)
		hold(c, op, alice)
	})
}

func (c *conversation) network(owner mesh.Member) {
	amsterdam := c.cell("amsterdam", owner.ID, "core1", "core2")
	berlin := c.cell("berlin", owner.ID)
	c.write(func(tx *store.Tx) error {
		return store.Update(tx, c.store.Cells, amsterdam.ID, func(v *mesh.Cell) error {
			v.Fallback = []mesh.CellID{berlin.ID}
			return nil
		})
	})
	lost := c.core(mesh.Core{Name: "core3 <b>&\"", Member: owner.ID, Cell: berlin.ID, Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:8444")}})
	c.write(func(tx *store.Tx) error {
		return errors.Join(
			store.Update(tx, c.store.Cores, lost.ID, func(v *mesh.Core) error {
				v.State, v.Reason = mesh.CoreLost, "no phone-home"
				return nil
			}),
			store.Update(tx, c.store.Status, "core/"+string(lost.ID), func(v *mesh.NodeStatus) error {
				v.Connected, v.LastSeen, v.Failure = false, time.Now().Add(-50*time.Hour), "the port is taken"
				return nil
			}))
	})
	c.entry("entry1", true)
	c.entry("entry2", false)
	c.device(owner, "phone", amsterdam, mesh.Limits{Traffic: 100e9, Connections: 16, Expires: time.Now().Add(30*24*time.Hour + time.Hour)})
	c.device(owner, "laptop", amsterdam, mesh.Limits{})
}

func (c *conversation) entry(name string, online bool) {
	e := mesh.Entry{ID: mesh.NewEntryID(), Name: name, Version: "v1.0.0", Joined: time.Now()}
	node := "entry/" + string(e.ID)
	st := mesh.NodeStatus{Node: node, Connected: online, LastSeen: time.Now().Add(-50 * time.Hour), Streams: 12, Observed: netip.MustParseAddrPort("192.0.2.1:5555")}
	c.write(func(tx *store.Tx) error {
		return errors.Join(store.Create(tx, c.store.Entries, e.ID, e), store.Create(tx, c.store.Status, node, st))
	})
}

func TestAnOperatorLooksAround(t *testing.T) {
	operated(t, "operator-status", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/status")
		for _, to := range []string{"cores", "entries", "cells", "members", "tokens", "backup", "alerts"} {
			c.press(op, "op.button."+to)
			c.press(op, "button.back")
		}
		c.press(op, "button.refresh")
	})
}

func TestAnAuditorChangesNothing(t *testing.T) {
	inBoth(t, "operator-auditor", func(c *conversation) {
		op := c.somebody("Otto")
		a := mesh.Administrator{ID: mesh.NewAdminID(), Name: "otto", Role: mesh.AdminAuditor, Created: time.Now()}
		c.write(func(tx *store.Tx) error { return store.Create(tx, c.store.Admins, a.ID, a) })
		c.linked(op, mesh.TelegramUser{Admin: a.ID})
		alice := c.member("Alice", 3)
		c.network(alice)
		c.say(op, "/status")
		for _, show := range []string{
			"/members", "/member Alice", "/device Alice/phone", "/cores", "/core core1", "/entry entry1", "/cell amsterdam", "/tokens", "/backup", "/alerts",
		} {
			c.say(op, show)
		}
		for _, change := range []string{
			"/member add Bob", "/member suspend Alice", "/device add Alice tablet amsterdam", "/device link Alice/phone", "/core drain core1",
			"/token entry", "/backup run", "/broadcast amsterdam",
		} {
			c.say(op, change)
		}
		if all := c.hasDevices(alice); len(all) != 2 {
			c.t.Errorf("there are %d devices, want 2", len(all))
		}
	})
}

func TestAnOperatorMindsMembers(t *testing.T) {
	operated(t, "operator-members", func(c *conversation, op *bottest.User, _ mesh.Member) {
		for i := range 9 {
			c.member(fmt.Sprintf("Person %d", i+1), i)
		}
		c.say(op, "/members")
		c.press(op, "button.next")
		c.press(op, "button.previous")
		c.press(op, "op.button.search")
		c.say(op, "PHONE")
		c.press(op, "op.button.search")
		c.say(op, "nobody <at> all")
		c.press(op, "button.back")
		c.press(op, "op.button.add")
		c.say(op, strings.Repeat("x", 200))
		c.say(op, `Bob <b>"&`)
		c.press(op, "op.button.suspend")
		c.press(op, "op.button.resume")
		c.press(op, "op.button.limit")
		c.pressLabel(op, "5")
		c.press(op, "op.button.limit")
		c.press(op, "op.button.other")
		c.say(op, "many")
		c.say(op, "12")
		c.press(op, "op.button.limit")
		c.press(op, "op.button.default")
		c.press(op, "op.button.archive")
		c.press(op, "button.cancel")
		c.press(op, "op.button.archive")
		c.press(op, "op.button.archive")
	})
}

func TestAnOperatorInvitesAMember(t *testing.T) {
	operated(t, "operator-code", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/member Alice")
		c.press(op, "op.button.code")
		c.settings(func(cfg *mesh.Config) { cfg.Bot.NoSecrets = true })
		for _, secret := range []string{"/member code Alice", "/token entry", "/device link Alice/phone"} {
			c.say(op, secret)
		}
	})
}

func TestAnOperatorMindsDevices(t *testing.T) {
	operated(t, "operator-devices", func(c *conversation, op *bottest.User, alice mesh.Member) {
		c.say(op, "/member Alice")
		c.press(op, "op.button.device-add")
		c.say(op, "tablet")
		c.pressLabel(op, "🟠 berlin · 0/1")
		c.press(op, "op.button.link")
		c.press(op, "button.back")
		c.press(op, "op.button.link")
		c.press(op, "button.cancel")
		c.press(op, "op.button.move")
		c.pressLabel(op, "🟢 amsterdam · 2/2")
		c.pressLabel(op, "🟢 core2 · amsterdam")
		c.press(op, "op.button.rotate")
		c.press(op, "op.button.rotate-name")
		c.press(op, "op.button.reset")
		c.press(op, "op.button.suspend")
		c.press(op, "op.button.resume")
		c.press(op, "op.button.revoke")
		c.press(op, "op.button.revoke")
		c.press(op, "button.back")
		if all := c.hasDevices(alice); len(all) != 3 {
			c.t.Errorf("there are %d devices, want 3", len(all))
		}
	})
}

func TestAnOperatorLimitsADevice(t *testing.T) {
	operated(t, "operator-limits", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/device Alice/laptop")
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.traffic")
		c.pressLabel(op, said(c.lang).Bytes(50e9))
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.traffic")
		c.press(op, "op.button.other")
		c.say(op, "a lot")
		c.say(op, "1.5TB")
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.expires")
		c.press(op, "op.button.other")
		c.say(op, "yesterday")
		c.say(op, "30d")
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.expires")
		c.press(op, "op.button.never")
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.connections")
		c.pressLabel(op, "16")
		c.press(op, "op.button.limits")
		c.press(op, "op.device.limits-button.connections")
		c.press(op, "op.button.none")
	})
}

func TestAnOperatorMindsCores(t *testing.T) {
	operated(t, "operator-cores", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/cores")
		c.pressLabel(op, `🔴 core3 <b>&" · berlin`)
		c.press(op, "button.back")
		c.pressLabel(op, "🟢 core1 · amsterdam")
		c.press(op, "op.button.drain")
		c.press(op, "op.button.undrain")
		c.press(op, "op.button.revoke")
		c.press(op, "button.cancel")
		c.press(op, "op.button.revoke")
		c.press(op, "op.button.revoke")
		c.press(op, "button.back")
		c.pressLabel(op, "🟢 core2 · amsterdam")
		c.press(op, "op.button.ban")
		c.press(op, "op.button.ban")
	})
}

func TestAnOperatorMindsEntries(t *testing.T) {
	operated(t, "operator-entries", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/entries")
		c.pressLabel(op, "🔴 entry2")
		c.press(op, "op.button.revoke")
		c.press(op, "op.button.revoke")
		c.press(op, "button.back")
		c.pressLabel(op, "🟢 entry1")
		c.press(op, "op.button.ban")
		c.press(op, "op.button.ban")
	})
}

func TestAnOperatorMindsCells(t *testing.T) {
	operated(t, "operator-cells", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/cells")
		c.pressLabel(op, "🟢 amsterdam · 2/2")
		c.press(op, "op.button.compromise")
		c.press(op, "button.cancel")
		c.press(op, "op.button.compromise")
		c.press(op, "op.button.compromise")
		c.press(op, "op.button.restore")
		c.press(op, "op.button.restore")
		c.say(op, "/cell restore amsterdam")
	})
}

func TestAnOperatorLetsNodesJoin(t *testing.T) {
	operated(t, "operator-tokens", func(c *conversation, op *bottest.User, _ mesh.Member) {
		c.say(op, "/tokens")
		c.press(op, "op.button.token-core")
		c.pressLabel(op, "Alice")
		c.pressLabel(op, "🟢 amsterdam · 2/2")
		c.pressLabel(op, said(c.lang).Span(6*time.Hour))
		token := c.hears(op, "meshctl core join")
		if !strings.Contains(token.Text, "<tg-spoiler>echo meshctl1.") {
			c.t.Errorf("the token is not in a spoiler:\n%s", token.Text)
		}
		shown, _, err := c.store.Shown.List(c.t.Context())
		if err != nil || len(shown) != 1 {
			c.t.Fatalf("%d tokens are on record as shown (%v)", len(shown), err)
		}
		for _, v := range shown {
			if v.Message != int64(token.ID) || v.Chat != mesh.TelegramID(op.ID).String() {
				c.t.Errorf("the token is on record as shown in %s, message %d", v.Chat, v.Message)
			}
		}
		c.press(op, "button.back")
		c.say(op, "/token entry 30m")
		c.say(op, "/token core Alice berlin 2d")
		c.say(op, "/token core Alice berlin")
		c.say(op, "/token")
	})
}

func TestAnOperatorMindsBackups(t *testing.T) {
	operated(t, "operator-backup", func(c *conversation, op *bottest.User, _ mesh.Member) {
		set := mesh.BackupSettings{
			Remotes: []mesh.BackupRemote{{Name: "git", URL: "/backup", Branch: "main", Auth: mesh.BackupAuthNone}, {Name: "far", URL: "/far", Branch: "main", Auth: mesh.BackupAuthNone}},
			Recipients: []mesh.BackupRecipient{
				{Name: "safe", Key: "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
			},
		}
		state := mesh.BackupState{
			Commit: "0123456789abcdef0123456789abcdef01234567", Committed: time.Now().Add(-90 * time.Hour),
			Remotes: []mesh.BackupRemoteState{
				{Name: "git", Pushed: time.Now().Add(-90 * time.Hour)}, {Name: "far", Failures: 3, Reason: "no route to <host>"},
			},
			Proof: mesh.BackupProofState{At: time.Now().Add(-90 * time.Hour), Objects: 120},
		}
		c.write(func(tx *store.Tx) error {
			return errors.Join(store.Create(tx, c.store.Backup, store.BackupKey, set), store.Create(tx, c.store.BackupState, store.BackupStateKey, state))
		})
		c.say(op, "/backup")
		c.press(op, "op.button.run")
		c.press(op, "op.button.verify")
		c.say(op, "/backup run")
		c.say(op, "/backup restore")
		c.say(op, "/status")
	})
}

func TestAnOperatorMindsAlerts(t *testing.T) {
	operated(t, "operator-alerts", func(c *conversation, op *bottest.User, _ mesh.Member) {
		cores, _, err := c.store.Cores.List(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		since := time.Now().Add(-3 * time.Hour)
		for id, core := range cores {
			if core.State != mesh.CoreLost {
				continue
			}
			a := mesh.Alert{Rule: "core-lost", Severity: mesh.Critical, Object: "core/" + string(id), Cause: "no phone-home since <then>",
				Advice: "look whether the machine runs", State: mesh.AlertFiring, Since: since, Changed: since, Times: 2}
			a.ID = alert.ID(a.Rule, a.Object)
			c.write(func(tx *store.Tx) error { return store.Create(tx, c.store.Alerts, a.ID, a) })
		}
		c.say(op, "/alerts")
		c.pressLabel(op, fmt.Sprintf("🔴 %s · core3 <b>&\"", said(c.lang).Plain("alert.title.core-lost")))
		c.press(op, "op.button.ack")
		c.pressLabel(op, said(c.lang).Plain("op.button.mute", "span", said(c.lang).Span(8*time.Hour)))
		c.press(op, "op.button.unmute")
		c.say(op, "/alert mute core-lost 2h")
		c.say(op, "/alert unmute core-lost")
		c.say(op, "/alert nothing")
	})
}

func TestAnOperatorWritesToMembers(t *testing.T) {
	operated(t, "operator-broadcast", func(c *conversation, op *bottest.User, alice mesh.Member) {
		a := c.somebody("Alice")
		c.linked(a, mesh.TelegramUser{Member: alice.ID})
		c.say(op, "/broadcast")
		c.press(op, "op.button.all")
		c.say(op, "First <try>")
		first := op.Last()
		c.say(op, "Tonight there is\nno <service> & no fun")
		send := said(c.lang).Plain("op.button.send", "n", said(c.lang).Plain("op.broadcast.people", "n", 1))
		op.Press(first.ID, send) // which is of a text that is none any more
		c.api.Settle(c.t)
		c.pressLabel(op, send)
		c.hears(a, "Tonight there is")
		for _, m := range a.Messages() {
			if strings.Contains(m.Plain, "First") {
				c.t.Error("what was replaced was sent")
			}
		}
		c.say(op, "/broadcast berlin")
		c.say(op, "Nobody reads this")
		c.say(op, "/broadcast nowhere")
	})
}

func TestOperatorsWriteCommands(t *testing.T) {
	operated(t, "operator-commands", func(c *conversation, op *bottest.User, _ mesh.Member) {
		for _, text := range []string{
			"/members ali", "/member", "/member add «Bob Smith»", "/member suspend Bob Smith", "/member resume Bob Smith", `/member limit "Bob Smith" 2`,
			`/member limit "Bob Smith" none`, "/member archive Bob Smith", "/member nobody",
			"/device", `/device add "Bob Smith" tv amsterdam`, "/device move Alice/phone berlin", "/device limit Alice/phone traffic 1TB",
			"/device limit Alice/phone expires never", "/device limit Alice/phone connections 0", "/device limit Alice/phone colour red", "/device limit Alice/phone traffic much",
			"/device link Alice/laptop", "/device link Alice/laptop", "/device rotate Alice/laptop", "/device reset Alice/laptop",
			"/device suspend Alice/laptop", "/device resume Alice/laptop", "/device revoke Alice/laptop",
			"/core core1", "/core drain core1", "/core resume core1", "/core revoke core1", "/core ban core1", "/entry entry1", "/entry revoke entry1", "/entry ban entry1",
			"/cell berlin", "/cell compromise berlin", "/cell restore berlin", "/token what", "/backup", "/alert",
		} {
			c.say(op, text)
		}
	})
}
