package chores

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// desktop is the server's side of the bot, in memory.
type desktop struct {
	api *bottest.Server

	mu       sync.Mutex // guards what is below
	order    *BotOrder
	outcome  BotOutcome
	outcomes int
	waiting  []mesh.Notice
	sent     map[string]int64
}

func (d *desktop) Lead(ctx context.Context) error { <-ctx.Done(); return nil }

func (d *desktop) Order() *BotOrder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.order
}

func (d *desktop) Ended(o BotOutcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outcome = o
	d.outcomes++
}

func (d *desktop) last() BotOutcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.outcome
}

func (d *desktop) Hand(ctx context.Context, hooks bool, put func(mesh.Notice) error) error {
	if !hooks {
		d.mu.Lock()
		waiting := d.waiting
		d.mu.Unlock()
		for _, n := range waiting {
			if err := put(n); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return nil
}

func (d *desktop) Sent(_ context.Context, id string, message int64, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent[id] = message
	return nil
}

func (d *desktop) number(id string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent[id]
}

func newDesktop(t *testing.T) (*site, *desktop) {
	api := bottest.New(t)
	d := &desktop{api: api, sent: map[string]int64{}, order: &BotOrder{Token: api.Token(), APIs: []string{api.URL}, Mesh: mesh.NewID()}}
	s := newSiteWith(t, "", func(r grpc.ServiceRegistrar) {
		admin.Serve(r, []admin.Binding{admin.BotWho.Handle(func(context.Context, admin.BotWhoRequest) (admin.BotSelf, error) {
			return admin.BotSelf{Standing: mesh.BotAnyone}, nil
		})})
	}, func(f *Foreman) { f.Bot, f.Outbox = d, d })
	t.Cleanup(func() {
		if strings.Contains(s.logs.String(), api.Token().Reveal()[5:]) {
			t.Errorf("the token is in the log:\n%s", s.logs)
		}
	})
	return s, d
}

// TestTheChildRunsTheBot: it works while it is ordered to, sends what waits, says
// how it goes, and is the same one after its child was killed.
func TestTheChildRunsTheBot(t *testing.T) {
	t.Parallel()
	s, d := newDesktop(t)
	ann := d.api.User(7, "Ann", "en")
	d.mu.Lock()
	d.waiting = []mesh.Notice{{ID: "1", To: mesh.ToTelegram("7"), Kind: mesh.NoticeDeclined, Created: time.Now()}}
	d.mu.Unlock()
	until(t, "it works", func() bool { return d.last().State == mesh.BotWorking })
	if got := d.last(); got.Username != d.api.Username || got.Failures != 0 {
		t.Errorf("the outcome is %+v", got)
	}
	until(t, "the notice is sent", func() bool { return d.number("1") != 0 && len(ann.Messages()) > 0 })
	ann.Write("hello")
	d.api.Settle(t)

	if err := syscall.Kill(s.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ann.Write("are you there?")
	d.api.Settle(t)

	s.depose()
	<-s.gone
	until(t, "nobody polls", func() bool { return !d.api.Polling() })
}

// TestTheChildSaysWhatAilsTheBot, and is told of another token.
func TestTheChildSaysWhatAilsTheBot(t *testing.T) {
	t.Parallel()
	s, d := newDesktop(t)
	until(t, "it works", func() bool { return d.last().State == mesh.BotWorking })
	d.api.Fail(func(c bottest.Call) *bottest.Fault {
		return &bottest.Fault{Code: 502, Body: "<html>" + d.api.Token().Reveal()}
	})
	d.api.User(7, "Ann", "en").Write("hello") // which ends the poll
	until(t, "that is said", func() bool { return d.last().State == mesh.BotServer && d.last().Retry > 0 })
	d.api.Fail(nil)
	d.api.Revoke()
	until(t, "that is said", func() bool { return d.last().State == mesh.BotToken })
	d.api.SetToken("4711:another-token-of-the-bot")
	d.mu.Lock()
	d.order = &BotOrder{Token: d.api.Token(), APIs: d.order.APIs, Mesh: d.order.Mesh}
	d.mu.Unlock()
	s.Wake()
	until(t, "it works again", func() bool { return d.last().State == mesh.BotWorking })
}

// TestTheSameOrderLetsTheBotGoOn: orders come again whenever those of another job
// change.
func TestTheSameOrderLetsTheBotGoOn(t *testing.T) {
	t.Parallel()
	api := bottest.New(t)
	cc, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	tell := make(chan *controlpb.BotOutcome)
	b := &botter{conn: cc, tell: tell}
	defer b.stop()
	order := &controlpb.BotOrder{Token: api.Token().Reveal(), Apis: []string{api.URL}, Mesh: string(mesh.NewID())}
	b.follow(t.Context(), order)
	for out := range tell {
		if out.GetState() == controlpb.BotOutcome_WORKING {
			break
		}
	}
	b.follow(t.Context(), proto.CloneOf(order))
	api.Wait(t, "it polls on", api.Polling)
	if n := len(api.Calls("getMe")); n != 1 {
		t.Errorf("it began %d times", n)
	}
	b.follow(t.Context(), nil)
	if api.Wait(t, "it does not poll", func() bool { return !api.Polling() }); b.order != nil {
		t.Error("it goes on")
	}
}
