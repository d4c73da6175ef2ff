package chores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/bot"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// countEvery is how often the server hears of counts that changed.
const countEvery = 10 * time.Second

// botter answers people on Telegram while it is told to.
type botter struct {
	conn  grpc.ClientConnInterface // to the server
	tell  chan<- *controlpb.BotOutcome
	order *controlpb.BotOrder // nil: none
	end   context.CancelFunc
	wg    sync.WaitGroup
}

// follow does as ordered from now on; the same order lets the bot go on. With any
// other, the bot of before has ended when follow returns.
func (b *botter) follow(ctx context.Context, o *controlpb.BotOrder) {
	if o != nil && proto.Equal(o, b.order) {
		return
	}
	b.stop()
	if o == nil {
		return
	}
	b.order = o
	ctx, b.end = context.WithCancel(ctx)
	b.wg.Go(func() { b.run(ctx, o) })
}

func (b *botter) stop() {
	if b.order != nil {
		b.end()
		b.wg.Wait()
		b.order = nil
	}
}

func (b *botter) run(ctx context.Context, o *controlpb.BotOrder) {
	r := &botReport{tell: b.tell, news: make(chan struct{}, 1)}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	job := &bot.Bot{
		Telegram: telegram.Settings{Token: mesh.Secret(o.GetToken()), APIs: o.GetApis(), Proxy: mesh.Secret(o.GetProxy()), Changed: r.changed},
		Mesh:     mesh.ID(o.GetMesh()), Key: mesh.Secret(o.GetKey()), Server: b.conn, Outbox: outbox{controlpb.NewChoresClient(b.conn)}, Log: log,
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.run(ctx) })
	if err := job.Run(ctx); err != nil {
		log.Error("bot not begun", "err", err)
		r.changed(telegram.State{Failure: telegram.Refused, Failures: 1})
	}
}

// botReport tells the server how the bot goes: at once when that changes, and
// counts from time to time.
type botReport struct {
	tell chan<- *controlpb.BotOutcome
	news chan struct{}

	mu    sync.Mutex // guards state
	state telegram.State
}

func (r *botReport) changed(s telegram.State) {
	r.mu.Lock()
	news := !s.Same(r.state)
	r.state = s
	r.mu.Unlock()
	if news {
		select {
		case r.news <- struct{}{}:
		default: // it will be told
		}
	}
}

func (r *botReport) run(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var last telegram.State
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.news:
		case <-tick.C:
		}
		r.mu.Lock()
		now := r.state
		r.mu.Unlock()
		if now == last || !now.Working && now.Failure == 0 {
			continue // nothing new, or nothing is known yet
		}
		select {
		case r.tell <- botOutcome(now):
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// botStates are the API's failures, as they are reported.
var botStates = map[telegram.Failure]controlpb.BotOutcome_State{
	telegram.Network: controlpb.BotOutcome_NETWORK, telegram.Server: controlpb.BotOutcome_SERVER,
	telegram.Token: controlpb.BotOutcome_TOKEN, telegram.Conflict: controlpb.BotOutcome_CONFLICT,
	telegram.Limited: controlpb.BotOutcome_LIMITED,
}

func botOutcome(s telegram.State) *controlpb.BotOutcome {
	out := &controlpb.BotOutcome{
		Failures: uint32(s.Failures), Username: s.Username, Api: uint32(s.API),
		Ignored: s.Ignored, Updates: s.Updates, Sent: s.Sent,
	}
	if !s.Retry.IsZero() {
		out.RetryNanos = int64(max(0, time.Until(s.Retry)))
	}
	switch state, known := botStates[s.Failure]; {
	case s.Working:
		out.State = controlpb.BotOutcome_WORKING
	case known:
		out.State = state
	case s.Failure != 0:
		out.State = controlpb.BotOutcome_OTHER
	}
	return out
}

// outbox is the server's, for chats.
type outbox struct{ server controlpb.ChoresClient }

// Notices is that of bot.Outbox.
func (o outbox) Notices(ctx context.Context) iter.Seq2[mesh.Notice, error] {
	return notices(ctx, o.server, &controlpb.NoticesRequest{})
}

// Sent is that of bot.Outbox.
func (o outbox) Sent(ctx context.Context, id string, message int64, dropped bool) error {
	if _, err := o.server.Sent(ctx, &controlpb.SentRequest{Id: id, Message: message, Dropped: dropped}); err != nil {
		return fmt.Errorf("chores: settle a notice: %w", rpcstatus.From(err))
	}
	return nil
}

// notices hands out those that wait, until ctx ends or the server ends it.
func notices(ctx context.Context, server controlpb.ChoresClient, req *controlpb.NoticesRequest) iter.Seq2[mesh.Notice, error] {
	return func(yield func(mesh.Notice, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, err := server.Notices(ctx, req)
		for err == nil {
			var m *controlpb.Notice
			if m, err = from.Recv(); err != nil {
				break
			}
			var n mesh.Notice
			if err = json.Unmarshal(m.GetJson(), &n); err == nil && !yield(n, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			err = rpcstatus.From(err)
		}
		yield(mesh.Notice{}, fmt.Errorf("chores: receive notices: %w", err))
	}
}
