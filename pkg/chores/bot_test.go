package chores

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const botSecret = "123456789:AAbotTokenThatNobodySees_0123456789"

func TestTokensOfBots(t *testing.T) {
	if got, err := ParseBotToken(botSecret); err != nil || got != botSecret {
		t.Error(err)
	}
	for _, bad := range []mesh.Secret{"", "123456789", ":AAbotTokenThatNobodySees_0123456789", botSecret + "\nx", botSecret + "/x", "x:" + botSecret} {
		if _, err := ParseBotToken(bad); mesh.Kind(err) != mesh.ErrInvalid || strings.Contains(err.Error(), "AAbot") {
			t.Errorf("%d bytes: %v", len(bad.Reveal()), err)
		}
	}
	for url, ok := range map[mesh.Secret]bool{
		"http://user:pa55word@proxy.example:3128": true, "https://proxy.example": true, "socks5://127.0.0.1:1080": true,
		"ftp://pa55word@proxy.example": false, "proxy.example:3128": false, "http://": false, "http://pa55word@%zz": false,
	} {
		if _, err := ParseProxy(url); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "pa55word") {
			t.Errorf("%s: %v", url.Reveal(), err)
		}
	}
}

// What the child says of the bot is checked: it runs a library of others.
func TestWhatTheChildSaysOfTheBot(t *testing.T) {
	ordered := (&BotOrder{Token: botSecret, APIs: []string{"a", "b"}, Proxy: "http://user:pa55word@p", Mesh: "mesh-a"}).proto()
	got := botOutcomeOf(&controlpb.BotOutcome{
		State: controlpb.BotOutcome_LIMITED, Failures: 2, RetryNanos: int64(time.Second), Username: "our_bot", Api: 1, Ignored: 1, Updates: 2, Sent: 3,
	}, ordered)
	want := BotOutcome{State: mesh.BotLimited, Failures: 2, Retry: time.Second, Username: "our_bot", API: 1, Ignored: 1, Updates: 2, Sent: 3}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, name := range []string{"a b", "<b>", strings.Repeat("x", 33), "x\n"} {
		if got := botOutcomeOf(&controlpb.BotOutcome{State: 99, Username: name, Api: 7}, ordered); got != (BotOutcome{State: mesh.BotOther}) {
			t.Errorf("%q becomes %+v", name, got)
		}
	}
	if s := hideBot(ordered, "dial https://x/bot"+botSecret+"/getMe via http://user:pa55word@p"); strings.Contains(s, botSecret) || strings.Contains(s, "pa55word") {
		t.Errorf("told is %s", s)
	}
	if s := hideBot(nil, "as it is"); s != "as it is" {
		t.Errorf("told is %s", s)
	}
}

// box is an outbox of notices that wait.
type box struct {
	waits []mesh.Notice
	sent  []string
}

func (b *box) Hand(_ context.Context, hooks bool, put func(mesh.Notice) error) error {
	for _, n := range b.waits {
		if _, hook := n.Hook(); hook != hooks {
			continue
		}
		if err := put(n); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) Sent(_ context.Context, id string, _ int64, dropped bool) error {
	if dropped {
		id += " dropped"
	}
	b.sent = append(b.sent, id)
	return nil
}

// taken is the child's end of a stream of notices.
type taken struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // as gRPC has it
	got []mesh.Notice
}

func (s *taken) Context() context.Context { return s.ctx }

func (s *taken) Send(n *controlpb.Notice) error {
	var v mesh.Notice
	err := json.Unmarshal(n.GetJson(), &v)
	s.got = append(s.got, v)
	return err
}

func TestNoticesAreTheLeadersChildsAlone(t *testing.T) {
	b := &box{waits: []mesh.Notice{{ID: "1", To: mesh.ToTelegram("7"), Kind: mesh.NoticeAnswer}, {ID: "2", To: mesh.ToHook("h")}}}
	f := &Foreman{Outbox: b}
	out := &taken{ctx: t.Context()}
	if err := f.Notices(&controlpb.NoticesRequest{}, out); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("without the office: %v", err)
	}
	f.leads = true
	if err := f.Notices(&controlpb.NoticesRequest{}, out); err != nil || len(out.got) != 1 || out.got[0].ID != "1" {
		t.Errorf("for chats comes %+v, %v", out.got, err)
	}
	if err := f.Notices(&controlpb.NoticesRequest{Hooks: true}, out); err != nil || len(out.got) != 2 || out.got[1].ID != "2" {
		t.Errorf("for webhooks comes %+v, %v", out.got, err)
	}
	if _, err := f.Sent(t.Context(), &controlpb.SentRequest{Id: "1", Dropped: true}); err != nil || b.sent[0] != "1 dropped" {
		t.Errorf("sent is %v, %v", b.sent, err)
	}
	none := &Foreman{leads: true}
	if _, err := none.Sent(t.Context(), &controlpb.SentRequest{Id: "1"}); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("without an outbox: %v", err)
	}
}
