package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// office is a server in memory that the bots of a test share, and what Telegram is.
type office struct {
	t    testing.TB
	api  *bottest.Server
	conn *grpc.ClientConn
	logs *syncBuffer

	mu     sync.Mutex // guards what is below
	people map[string]admin.BotSelf
	once   map[string]bool
	made   []string // what MemberAdd made
	down   bool
	outbox []mesh.Notice
	sent   []settled
	stream chan struct{} // closed to end streams of notices
}

type settled struct {
	id      string
	message int64
	dropped bool
}

func newOffice(t testing.TB) *office {
	t.Helper()
	o := &office{
		t: t, api: bottest.New(t), logs: new(syncBuffer), people: map[string]admin.BotSelf{}, once: map[string]bool{},
		stream: make(chan struct{}),
	}
	path := filepath.Join(t.TempDir(), "aux")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	admin.Serve(srv, []admin.Binding{admin.BotWho.Handle(o.who), admin.BotExpect.Handle(o.expect), admin.MemberAdd.Handle(o.add)})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with Stop
	}()
	t.Cleanup(func() { srv.Stop(); <-done })
	if o.conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.conn.Close() // nothing is under way
		if logs := o.logs.String(); strings.Contains(logs, o.api.Token().Reveal()[5:]) {
			t.Errorf("the token is in the log:\n%s", logs)
		}
	})
	return o
}

func (o *office) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// person is somebody whom the server knows.
func (o *office) person(id int64, name, lang string, self admin.BotSelf) *bottest.User {
	o.set(func() { o.people[fmt.Sprint(id)] = self })
	return o.api.User(id, name, lang)
}

// caller is the user and the name of the update in a call.
func caller(ctx context.Context) (user, update string) {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get(admin.BotUserHeader), ","), strings.Join(md.Get(admin.BotUpdateHeader), ",")
}

func (o *office) who(ctx context.Context, _ admin.BotWhoRequest) (admin.BotSelf, error) {
	user, _ := caller(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return admin.BotSelf{}, fmt.Errorf("store: read: no quorum: %w", mesh.ErrUnavailable)
	}
	return o.people[user], nil
}

// change makes a change once.
func (o *office) change(ctx context.Context, f func(user string)) error {
	user, update := caller(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if update == "" {
		return fmt.Errorf("mgmt: it names no update: %w", mesh.ErrDenied)
	}
	if o.once[update] {
		return fmt.Errorf("store: change: %s: %w", admin.ErrDone, mesh.ErrExists)
	}
	f(user)
	o.once[update] = true
	return nil
}

func (o *office) expect(ctx context.Context, c mesh.TelegramChat) (admin.None, error) {
	return admin.None{}, o.change(ctx, func(user string) {
		self := o.people[user]
		self.Expect = &c
		if c.Asked == "" {
			self.Expect = nil
		}
		o.people[user] = self
	})
}

func (o *office) add(ctx context.Context, r admin.MemberAddRequest) (admin.MemberView, error) {
	if r.Name == "bad" {
		return admin.MemberView{}, fmt.Errorf("adminsvc: add member: the name is <bad>: %w", mesh.ErrInvalid)
	}
	err := o.change(ctx, func(string) { o.made = append(o.made, r.Name) })
	return admin.MemberView{Member: mesh.Member{Name: r.Name}}, err
}

func (o *office) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.made)
}

// Notices is that of Outbox.
func (o *office) Notices(ctx context.Context) iter.Seq2[mesh.Notice, error] {
	return func(yield func(mesh.Notice, error) bool) {
		seen := map[string]bool{}
		for ctx.Err() == nil {
			o.mu.Lock()
			waiting, end := slices.Clone(o.outbox), o.stream
			o.mu.Unlock()
			for _, n := range waiting {
				if !seen[n.ID] && !yield(n, nil) {
					return
				}
				seen[n.ID] = true
			}
			select {
			case <-end:
				yield(mesh.Notice{}, errors.New("the stream ended"))
				return
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// Sent is that of Outbox.
func (o *office) Sent(_ context.Context, id string, message int64, dropped bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outbox = slices.DeleteFunc(o.outbox, func(n mesh.Notice) bool { return n.ID == id })
	o.sent = append(o.sent, settled{id, message, dropped})
	return nil
}

// notify puts texts for a chat into the outbox.
func (o *office) notify(chat int64, texts ...string) {
	o.set(func() {
		for _, text := range texts {
			o.outbox = append(o.outbox, mesh.Notice{
				ID: fmt.Sprintf("%08d", len(o.outbox)+len(o.sent)), To: mesh.ToTelegram(fmt.Sprint(chat)), Kind: mesh.NoticeBroadcast,
				Created: time.Now(), Params: map[string]string{"text": text},
			})
		}
	})
}

func (o *office) settled() []settled {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

// run starts a bot with the screens of a test; what it returns ends it, as if it
// crashed: nothing more is sent or acknowledged.
func (o *office) run(routes Routes, change ...func(*Bot)) (*Bot, func()) {
	o.t.Helper()
	b := &Bot{
		Telegram: telegram.Settings{Token: o.api.Token(), APIs: []string{o.api.URL}, PerChat: 1000},
		Mesh:     "mesh-aaaaaaaaaaaaaaaa", Server: o.conn, Outbox: o,
		Log: slog.New(slog.NewTextHandler(o.logs, nil)),
	}
	for _, f := range change {
		f(b)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.run(ctx, routes) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			o.t.Errorf("the bot ended with %v", err)
		}
	})
	o.t.Cleanup(end)
	return b, end
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// operatorSelf is an operator, memberSelf a member.
func operatorSelf() admin.BotSelf {
	return admin.BotSelf{Standing: mesh.BotOperator, Admin: "ann", Role: mesh.AdminOperator}
}

func memberSelf() admin.BotSelf { return admin.BotSelf{Standing: mesh.BotMember, Member: "bob"} }

// simple are screens for tests: a menu, a button that changes something, a
// question, and a long list.
func simple() Routes {
	menu := func(ctx context.Context, s *Session) error {
		return s.Show(ctx, Screen{Text: "menu of " + s.Self.Admin + s.Self.Member, Rows: [][]Button{
			Row(Button{Label: "Next", Action: "next", Args: []string{"1"}}, Button{Label: "Make", Action: "make", Args: []string{"x"}}),
		}})
	}
	made := func(ctx context.Context, s *Session, name string) error {
		_, err := Call(ctx, s, admin.MemberAdd, admin.MemberAddRequest{Name: name})
		if err != nil && !Done(err) {
			return err
		}
		return s.Show(ctx, Screen{Text: "made " + name, Rows: [][]Button{Row(Button{Label: "Menu", Action: "menu"})}})
	}
	return Routes{
		Commands: []Command{
			{Name: "start", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ string) error { return menu(ctx, s) }},
			{Name: "status", Need: mesh.BotOperator, Do: func(ctx context.Context, s *Session, _ string) error { return menu(ctx, s) }},
			{Name: "make", Need: mesh.BotOperator, Do: func(ctx context.Context, s *Session, rest string) error { return made(ctx, s, rest) }},
			{Name: "ask", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, rest string) error {
				return s.Ask(ctx, "name", rest, Screen{Text: "what name?"})
			}},
			{Name: "panic", Need: mesh.BotAnyone, Do: func(context.Context, *Session, string) error { panic("of a handler") }},
		},
		Actions: []Action{
			{Name: "menu", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ []string) error { return menu(ctx, s) }},
			{Name: "next", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, args []string) error {
				return s.Show(ctx, Screen{Text: "page " + args[0], Rows: [][]Button{Row(Button{Label: "Next", Action: "next", Args: []string{args[0] + "1"}})}})
			}},
			{Name: "make", Need: mesh.BotOperator, Changes: true, Do: func(ctx context.Context, s *Session, args []string) error { return made(ctx, s, args[0]) }},
		},
		Answers: []Answer{{Question: "name", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, data, text string) error {
			return made(ctx, s, data+text)
		}}},
		Talk: func(ctx context.Context, s *Session, text string) error {
			_, err := s.Say(ctx, Screen{Text: s.T.HTML("fail.detail", "detail", text)})
			return err
		},
		Notice: func(_ *Session, n mesh.Notice) Screen { return Screen{Text: n.Params["text"]} },
	}
}
