package chores

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// maxLine bounds what waits in memory for one webhook; the rest waits at the
	// server.
	maxLine = 500
	// maxDone is how many are remembered that were posted, since the server may
	// hand them out once more.
	maxDone = 1000
	// maxRefused is how often a receiver may refuse a notice for good before it is
	// given up.
	maxRefused = 5
)

// hooker posts notices to webhooks while it is told to.
type hooker struct {
	server controlpb.ChoresClient
	tell   chan<- *controlpb.HookOutcome
	retry  control.Backoff // between attempts; the zero Backoff: 2 s to 5 min
	order  *controlpb.HooksOrder
	end    context.CancelFunc
	wg     sync.WaitGroup
}

// follow does as ordered from now on; the same order lets posts go on. With any
// other, those of before have ended when follow returns.
func (h *hooker) follow(ctx context.Context, o *controlpb.HooksOrder) {
	if o != nil && proto.Equal(o, h.order) {
		return
	}
	h.stop()
	if o == nil {
		return
	}
	h.order = o
	ctx, h.end = context.WithCancel(ctx)
	h.wg.Go(func() { h.run(ctx, o) })
}

func (h *hooker) stop() {
	if h.order != nil {
		h.end()
		h.wg.Wait()
		h.order = nil
	}
}

// run has one line for each webhook, so that one that does not answer keeps no
// other waiting.
func (h *hooker) run(ctx context.Context, o *controlpb.HooksOrder) {
	if h.retry == (control.Backoff{}) {
		h.retry = control.Backoff{Min: 2 * time.Second, Max: 5 * time.Minute}
	}
	lines, again := map[string]*line{}, make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	posts := newPoster()
	for _, hook := range o.GetHooks() {
		l := &line{hook: hook, posts: posts, retry: h.retry, tell: h.tell, sent: h.sent, again: again,
			more: make(chan struct{}, 1), here: map[string]bool{}}
		lines[hook.GetName()] = l
		wg.Go(func() { l.run(ctx) })
	}
	for ctx.Err() == nil {
		h.receive(ctx, lines, again)
		wait(ctx, time.Second)
	}
}

// receive puts what waits into its line until the stream ends, or a line wants what
// it had no room for.
func (h *hooker) receive(ctx context.Context, lines map[string]*line, again <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-again:
			cancel()
		case <-ctx.Done():
		}
	})
	for n, err := range h.notices(ctx) {
		if err != nil {
			return // the server says why it is not, and the stream is opened again
		}
		if name, ok := n.Hook(); ok && lines[name] != nil {
			lines[name].put(n)
		}
	}
}

func (h *hooker) notices(ctx context.Context) iter.Seq2[mesh.Notice, error] {
	return notices(ctx, h.server, &controlpb.NoticesRequest{Hooks: true})
}

func (h *hooker) sent(ctx context.Context, id string, dropped bool) error {
	if _, err := h.server.Sent(ctx, &controlpb.SentRequest{Id: id, Dropped: dropped}); err != nil {
		return fmt.Errorf("chores: settle a notice: %w", rpcstatus.From(err))
	}
	return nil
}

// line is what waits for one webhook, in order.
type line struct {
	hook  *controlpb.Hook
	posts *poster
	retry control.Backoff
	tell  chan<- *controlpb.HookOutcome
	sent  func(ctx context.Context, id string, dropped bool) error
	again chan<- struct{} // asks for what there was no room for
	more  chan struct{}

	mu    sync.Mutex // guards what follows
	queue []mesh.Notice
	here  map[string]bool // in queue, or in done
	done  []string
	left  bool // there was no room for some
}

// put adds a notice, unless it is there or was posted.
func (l *line) put(n mesh.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.here[n.ID]:
		return
	case l.left || len(l.queue) >= maxLine:
		l.left = true // and so are those after it, or they would overtake it
		return
	}
	l.here[n.ID] = true
	l.queue = append(l.queue, n)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// first is the next to be posted; false when none waits.
func (l *line) first() (mesh.Notice, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		return l.queue[0], true
	}
	if l.left {
		l.left = false
		select {
		case l.again <- struct{}{}:
		default:
		}
	}
	return mesh.Notice{}, false
}

// forget takes the first away.
func (l *line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, l.queue[0].ID)
	l.queue = l.queue[1:]
	if len(l.done) > maxDone {
		delete(l.here, l.done[0])
		l.done = l.done[1:]
	}
}

// run posts, each notice until it is taken or refused for good.
func (l *line) run(ctx context.Context) {
	failures, retry := 0, l.retry
	for ctx.Err() == nil {
		n, ok := l.first()
		if !ok {
			select {
			case <-l.more:
			case <-ctx.Done():
			}
			continue
		}
		dropped, ok := l.deliver(ctx, n, &failures, &retry)
		for tries := l.retry; ok && ctx.Err() == nil; wait(ctx, tries.Next()) {
			if l.sent(ctx, n.ID, dropped) == nil {
				break
			}
		}
		if ctx.Err() == nil {
			l.forget()
		}
	}
}

// deliver posts one notice; false when ctx ended before.
func (l *line) deliver(ctx context.Context, n mesh.Notice, failures *int, retry *control.Backoff) (dropped, ok bool) {
	for refused := 0; ctx.Err() == nil; {
		f := l.posts.post(ctx, l.hook, n)
		if ctx.Err() != nil {
			return false, false
		}
		*failures++
		if f.GetDone() {
			*failures = 0
			retry.Reset()
		}
		f.HookOutcome.Failures = uint32(*failures)
		select {
		case l.tell <- f.HookOutcome:
		case <-ctx.Done():
			return false, false
		}
		if f.never {
			refused++
		}
		if f.GetDone() || refused >= maxRefused {
			return !f.GetDone(), true
		}
		wait(ctx, max(retry.Next(), f.wait))
	}
	return false, false
}
