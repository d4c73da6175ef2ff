package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// botMesh is a mesh of three servers that have the same bot, and an operator who
// speaks with it.
type botMesh struct {
	*dev.Mesh
	t   *testing.T
	api *bottest.Server
	op  *bottest.User
}

func newBotMesh(t *testing.T) *botMesh {
	t.Helper()
	api := bottest.New(t)
	token := secretFile(t, api.Token().Reveal())
	m := newMesh(t, dev.Settings{Servers: 3, Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if strings.HasPrefix(part, "mgmt") {
			config["bot"] = map[string]any{"token-file": token, "api": []string{api.URL}}
		}
	}})
	b := &botMesh{Mesh: m, t: t, api: api, op: api.User(77, "Olga", "en")}
	newAdministrator(t, m, "olga", mesh.AdminOperator)
	b.op.Write("/link " + call(t, m, admin.BotCodeCreate, admin.BotCodeRequest{Admin: "olga"}).Code)
	b.told("linked")
	return b
}

// told waits until one of the bot's messages, as they are now, has the text.
func (b *botMesh) told(text string) bottest.Message {
	b.t.Helper()
	var found bottest.Message
	eventually(b.t, patience, "the bot says "+text, func() error {
		all := b.op.Messages()
		for _, m := range all {
			if strings.Contains(m.Plain, text) {
				found = m
				return nil
			}
		}
		return fmt.Errorf("it says %+v", all)
	})
	return found
}

// leader is the server that has the bot; the test asks another one from then on.
func (b *botMesh) leader() *dev.Process {
	b.t.Helper()
	var name string
	eventually(b.t, patience, "a server has the bot", func() error {
		st, err := tryCall(b.t, b.Mesh, admin.BotStatusGet, admin.None{})
		if err != nil || st.Server == "" || st.State != mesh.BotWorking {
			return fmt.Errorf("%+v, %v", st, err)
		}
		list, err := tryCall(b.t, b.Mesh, admin.MgmtList, admin.Page{})
		for _, s := range list.Items {
			if s.ID == st.Server {
				name = s.Name
			}
		}
		return err
	})
	var leader, other *dev.Process
	for _, p := range b.Servers {
		if p.Name == name {
			leader = p
		} else {
			other = p
		}
	}
	if leader == nil {
		b.t.Fatalf("no server is called %q", name)
	}
	cc, err := admin.DialSocket(filepath.Join(b.Dir, other.Name+".sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			b.t.Error(err)
		}
	})
	b.Mesh.Admin = cc
	return leader
}

// members are those called so.
func (b *botMesh) members(name string) (n int) {
	b.t.Helper()
	list, err := tryCall(b.t, b.Mesh, admin.MemberList, admin.Page{})
	if err != nil {
		return 0 // the servers are busy with each other; it is asked again
	}
	for _, m := range list.Items {
		if m.Name == name {
			n++
		}
	}
	return n
}

func (b *botMesh) wantMember(name string) {
	b.t.Helper()
	eventually(b.t, patience, name+" is a member", func() error {
		if n := b.members(name); n != 1 {
			return fmt.Errorf("%d of them", n)
		}
		return nil
	})
}

// B-04, B-09: servers lose the bot in the midst of conversations. The next one goes
// on, and whatever an operator asked for is done once and answered.
func TestTheBotGoesOnWithAnotherServer(t *testing.T) {
	t.Parallel()
	b := newBotMesh(t)
	b.killedBeforeTheAnswer()
	b.killedBeforeTheReply()
	b.paused()
	b.tokenUsed()
}

// killedBeforeTheAnswer: what the bot waits for outlives the server that asked.
func (b *botMesh) killedBeforeTheAnswer() {
	b.op.Write("/members")
	b.api.Settle(b.t)
	b.op.Press(b.op.Last().ID, "Add")
	b.api.Settle(b.t)
	leader := b.leader()
	kill(b.t, leader)
	killed := time.Now()
	b.op.Write("Bob")
	b.wantMember("Bob")
	b.api.Settle(b.t)
	b.told("Bob")
	b.t.Logf("answered %v after the server was killed", time.Since(killed))
	if n := b.members("Bob"); n != 1 {
		b.t.Errorf("%d members are called Bob", n)
	}
	restart(b.t, b.Mesh, leader)
}

// killedBeforeTheReply: Telegram hands the update out again, and it is not done again.
func (b *botMesh) killedBeforeTheReply() {
	leader := b.leader()
	b.api.Fail(func(c bottest.Call) *bottest.Fault {
		if c.Method == "sendMessage" || c.Method == "editMessageText" {
			return &bottest.Fault{Code: 502, Description: "Bad Gateway"}
		}
		return nil
	})
	b.op.Write("/member add Carol")
	b.wantMember("Carol")
	kill(b.t, leader)
	b.api.Fail(nil)
	b.api.Settle(b.t)
	b.told("Carol")
	if n := b.members("Carol"); n != 1 {
		b.t.Errorf("%d members are called Carol", n)
	}
	restart(b.t, b.Mesh, leader)
}

// paused: the server that has the bot stops for a while and does not know it. What
// is asked meanwhile is answered by another, and once.
func (b *botMesh) paused() {
	leader := b.leader()
	signal(b.t, leader, syscall.SIGSTOP)
	paused := time.Now()
	b.op.Write("/member add Dave")
	b.wantMember("Dave")
	took := time.Since(paused)
	b.t.Logf("done %v after the server was paused", took)
	signal(b.t, leader, syscall.SIGCONT)
	ready(b.t, leader)
	b.op.Write("/member add Erin")
	b.wantMember("Erin")
	b.api.Settle(b.t)
	b.told("Dave")
	b.told("Erin")
	for _, name := range []string{"Dave", "Erin"} {
		if n := b.members(name); n != 1 {
			b.t.Errorf("%d members are called %s", n, name)
		}
	}
	if events := call(b.t, b.Mesh, admin.EventList, admin.EventListRequest{Type: mesh.EventBotTokenShared}); len(events.Items) != 0 {
		b.t.Errorf("the token is said to be used elsewhere: %+v", events.Items)
	}
}

// tokenUsed: the message that shows a token goes when the token is used, and what
// became of it is told.
func (b *botMesh) tokenUsed() {
	b.op.Write("/token core " + dev.MemberName + " " + dev.CellName)
	shown := b.told("meshctl core join")
	_, rest, _ := strings.Cut(shown.Plain, "echo ")
	token, _, _ := strings.Cut(rest, " |")
	enrollOnly(b.t, token, filepath.Join(b.t.TempDir(), "core")).want(b.t, exitOK)
	eventually(b.t, patience, "the message is gone", func() error {
		if m := b.op.Message(shown.ID); m.ID != 0 {
			return fmt.Errorf("it says %.40s", m.Plain)
		}
		return nil
	})
	b.told("was used")
}
