package bot

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// senders is how many notices may be on their way at once, maxHeld how many
	// are held here. Of the rest the server knows.
	senders = 8
	maxHeld = 10_000
	// maxAge is how old a notice may get.
	maxAge = 24 * time.Hour
	// againFirst and againLast are how long is waited after what failed.
	againFirst, againLast = time.Second, time.Minute
)

// Outbox is what waits at the server to be sent.
type Outbox interface {
	// Notices hands out what waits, in the order in which it was written, and what
	// comes, each once. It ends with an error, or with ctx.
	Notices(ctx context.Context) iter.Seq2[mesh.Notice, error]
	// Sent says that a notice was sent, as which message, or that it never will be.
	Sent(ctx context.Context, id string, message int64, dropped bool) error
}

// post sends what waits in the outbox: to each chat in order, to several at once.
type post struct {
	bot *Bot

	wake  chan struct{}
	mu    sync.Mutex // guards what is below
	chats map[string]*chatQueue
	held  int
}

// chatQueue is what one chat is to get.
type chatQueue struct {
	notices []mesh.Notice
	busy    bool      // somebody sends the first
	next    time.Time // not before then
	fails   int
}

// add puts a notice at the end, but alerts before what is no alert: strangers, who
// may ask to join by the hundred, must not keep them waiting. What is being sent
// stays the first.
func (q *chatQueue) add(n mesh.Notice) {
	at := len(q.notices)
	if urgent(n) {
		for at > 0 && !urgent(q.notices[at-1]) && (at > 1 || !q.busy) {
			at--
		}
	}
	q.notices = slices.Insert(q.notices, at, n)
}

func urgent(n mesh.Notice) bool { return n.Kind == mesh.NoticeAlert || n.Kind == mesh.NoticeResolved }

// run sends until ctx ends. A stream that ends is asked for anew; what was held of
// the one before is then in the new one.
func (p *post) run(ctx context.Context) {
	for wait := againFirst; ctx.Err() == nil; wait = min(2*wait, againLast) {
		begun := time.Now()
		p.term(ctx)
		if time.Since(begun) > againLast {
			wait = againFirst
		}
		sleep(ctx, wait)
	}
}

// term is one stream.
func (p *post) term(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.chats, p.held = map[string]*chatQueue{}, 0
	p.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range senders {
		wg.Go(func() { p.send(ctx) })
	}
	for n, err := range p.bot.Outbox.Notices(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				p.bot.Log.Warn("notices ended", "err", err)
			}
			return
		}
		if !p.put(ctx, n) {
			return
		}
	}
}

// put takes a notice in; it waits while there are too many.
func (p *post) put(ctx context.Context, n mesh.Notice) bool {
	chat, ok := n.Telegram()
	if !ok {
		return true
	}
	for {
		p.mu.Lock()
		if p.held < maxHeld {
			break
		}
		p.mu.Unlock()
		if sleep(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
	q := p.chats[chat]
	if q == nil {
		q = &chatQueue{}
		p.chats[chat] = q
	}
	q.add(n)
	p.held++
	p.mu.Unlock()
	p.awake()
	return true
}

func (p *post) awake() {
	select {
	case p.wake <- struct{}{}:
	default: // somebody will look
	}
}

// send sends what is next, again and again.
func (p *post) send(ctx context.Context) {
	for ctx.Err() == nil {
		chat, n, wait := p.next()
		if chat == "" {
			select {
			case <-ctx.Done():
			case <-p.wake:
			case <-time.After(wait):
			}
			continue
		}
		p.awake() // there may be more, for another
		p.bot.guarded(func() { p.one(ctx, chat, n) })
		p.finish(chat, n.ID, false, 0) // if that panicked it is held up, not lost
		p.awake()
	}
}

// next takes up the oldest notice that may be sent now, or says how long there is
// none.
func (p *post) next() (chat string, n mesh.Notice, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	wait = time.Minute
	for c, q := range p.chats {
		if q.busy {
			continue
		}
		if d := q.next.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		if chat == "" || q.notices[0].ID < n.ID {
			chat, n = c, q.notices[0]
		}
	}
	if chat != "" {
		p.chats[chat].busy = true
	}
	return chat, n, wait
}

// finish says how it went with what was taken up: it is gone, or is tried again
// after a while.
func (p *post) finish(chat, id string, gone bool, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.chats[chat]
	if q == nil || !q.busy || q.notices[0].ID != id {
		return
	}
	q.busy = false
	if gone {
		q.fails = 0
		p.held--
		if q.notices = q.notices[1:]; len(q.notices) == 0 {
			delete(p.chats, chat)
			return
		}
		number, err := mesh.ParseTelegramID(chat)
		if err == nil {
			q.next = p.bot.api.Ready(int64(number))
		}
		return
	}
	q.fails++
	q.next = time.Now().Add(max(again, min(againFirst<<min(q.fails-1, 6), againLast)))
}

// one sends a notice.
func (p *post) one(ctx context.Context, chat string, n mesh.Notice) {
	ctx, cancel := context.WithTimeout(ctx, handleTime)
	defer cancel()
	message, err := p.bot.tell(ctx, chat, n)
	dropped := hopeless(err)
	if err != nil && !dropped {
		p.finish(chat, n.ID, false, telegram.RetryAfter(err))
		return
	}
	if err := p.bot.Outbox.Sent(ctx, n.ID, message, dropped); err != nil && mesh.Kind(err) != mesh.ErrNotFound {
		// It goes out once more, when the server hands it out again.
		p.bot.Log.Warn("notice not settled", "err", err)
	}
	p.finish(chat, n.ID, true, 0)
}

// hopeless says whether what failed so will never be sent.
func hopeless(err error) bool {
	switch telegram.FailureOf(err) {
	case telegram.Gone, telegram.Refused:
		return true
	}
	switch mesh.Kind(err) {
	case mesh.ErrInvalid, mesh.ErrNotFound, mesh.ErrDenied:
		return true
	}
	return false
}

// tell says a notice to who it is for, and returns the number of the message.
func (b *Bot) tell(ctx context.Context, chat string, n mesh.Notice) (int64, error) {
	user, err := mesh.ParseTelegramID(chat)
	if err != nil {
		return 0, err
	}
	if time.Since(n.Created) > maxAge {
		return 0, errTooOld
	}
	s := &Session{User: user, Now: time.Now(), bot: b, key: "notice/" + n.ID, calls: map[string]int{}}
	asUser := metadata.AppendToOutgoingContext(ctx, admin.BotUserHeader, user.String())
	if s.Self, err = admin.BotWho.Call(asUser, b.Server, admin.BotWhoRequest{}); err != nil {
		return 0, err
	}
	s.T = b.texts.For(s.Self.Language, b.languageOf(user))
	if n.Delete != 0 {
		if err := b.api.Delete(ctx, int64(user), int(n.Delete)); err != nil && !hopeless(err) {
			return 0, err
		}
	}
	return s.Say(ctx, b.routes.notice(s, n))
}

var errTooOld = fmt.Errorf("bot: notice: too old: %w", mesh.ErrInvalid)

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
