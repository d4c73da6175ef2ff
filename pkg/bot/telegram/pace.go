package telegram

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What Telegram takes: thirty messages a second, of these one to each chat, and
// twenty a minute to each group. Answers to what somebody does may be a few at once.
// Changes of messages count for the whole alone.
const (
	perSecond     = 30
	perChat       = 1
	answersAtOnce = 4
	perGroup      = 3 * time.Second
	// maxChats is how many chats are kept in mind.
	maxChats = 10_000
)

// pace keeps what is sent within the limits.
type pace struct {
	all     *rate.Limiter
	perChat rate.Limit

	mu    sync.Mutex // guards chats
	chats map[int64]*chatPace
}

type chatPace struct {
	limiter *rate.Limiter
	until   time.Time // nothing before then: the API said so
	used    time.Time
}

func newPace(each float64) *pace {
	if each == 0 {
		each = perChat
	}
	return &pace{all: rate.NewLimiter(perSecond*max(1, rate.Limit(each)), 1), perChat: rate.Limit(each), chats: map[int64]*chatPace{}}
}

// wait returns when a message may be sent to the chat, or one of it changed.
func (p *pace) wait(ctx context.Context, chat int64, change bool) error {
	c, until := p.of(chat)
	if d := time.Until(until); d > 0 {
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			return &Error{Failure: Limited, Code: 429, Description: "too many messages", RetryAfter: d}
		}
		pause(ctx, d)
	}
	var err error
	if !change {
		err = c.Wait(ctx)
	}
	if err == nil {
		err = p.all.Wait(ctx)
	}
	if err != nil {
		return &Error{Failure: Limited, Description: "too many messages", RetryAfter: time.Second}
	}
	return ctx.Err()
}

// ready is when the next of several messages may be sent to the chat without
// being one of a burst.
func (p *pace) ready(chat int64) time.Time {
	c, until := p.of(chat)
	if lack := answersAtOnce - c.Tokens(); lack > 0 {
		if at := time.Now().Add(time.Duration(lack / float64(c.Limit()) * float64(time.Second))); at.After(until) {
			return at
		}
	}
	return until
}

// blocked has nothing sent to the chat for a while.
func (p *pace) blocked(chat int64, d time.Duration) {
	p.of(chat)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.chats[chat]; c != nil {
		c.until = time.Now().Add(d)
	}
}

func (p *pace) of(chat int64) (*rate.Limiter, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	c := p.chats[chat]
	if c == nil {
		p.trim(now)
		c = &chatPace{limiter: rate.NewLimiter(p.perChat, answersAtOnce)}
		if chat < 0 {
			c.limiter = rate.NewLimiter(rate.Every(perGroup), answersAtOnce)
		}
		p.chats[chat] = c
	}
	c.used = now
	return c.limiter, c.until
}

// trim forgets chats that no limit is about any more. Callers hold p.mu.
func (p *pace) trim(now time.Time) {
	if len(p.chats) < maxChats {
		return
	}
	for chat, c := range p.chats {
		if now.Sub(c.used) > time.Minute && now.After(c.until) {
			delete(p.chats, chat)
		}
	}
}
