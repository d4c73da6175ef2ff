package telegram

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	tele "gopkg.in/telebot.v3"
)

const (
	firstWait, lastWait = time.Second, time.Minute
	// batch is how many updates come at once, maxOpen how many may be in work
	// before more are asked for.
	batch   = 100
	maxOpen = 200
	// glance is how often is asked for more while some are in work.
	glance = 300 * time.Millisecond
	// stays is how long an address of the API that is not the first is kept.
	stays = 10 * time.Minute
)

// kinds of updates that are asked for; what else there is, Telegram keeps.
func kinds() []string { return []string{"message", "callback_query"} }

// Update is what somebody did. Done must be called once it is handled, or given
// up: only then Telegram forgets it.
type Update struct {
	tele.Update
	Done func()
}

// Poll hands each update to take, until ctx ends. take must not wait. What fails
// is tried again, later each time; Poll itself never does.
func (c *Client) Poll(ctx context.Context, take func(Update)) {
	p := &poll{Client: c, ledger: newLedger(), take: take, begun: time.Now(), limit: batch, quick: true}
	for ctx.Err() == nil {
		p.once(ctx)
	}
}

type poll struct {
	*Client
	ledger  *ledger
	take    func(Update)
	begun   time.Time
	limit   int
	quick   bool      // the next poll is not to wait, so that it is soon known whether it works
	fails   int       // in a row; conflicts are, until there was none for a while
	working time.Time // since when through an address that is not the first
	fought  time.Time // when there was a conflict last
}

// once polls, and waits for as long as there is reason to.
func (p *poll) once(ctx context.Context) {
	if p.ledger.open() > 0 {
		p.settle(ctx, glance, 0)
	}
	p.settle(ctx, time.Hour, maxOpen-1)
	if ctx.Err() != nil {
		return
	}
	if err := p.ask(ctx, p.ledger.open() == 0); err != nil {
		p.failed(ctx, err)
		return
	}
	p.succeeded()
}

// settle returns when no more than so many updates are in work, or after d.
func (p *poll) settle(ctx context.Context, d time.Duration, open int) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for p.ledger.open() > open {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-p.ledger.moved:
		}
	}
}

// ask polls once; it waits for updates when it may.
func (p *poll) ask(ctx context.Context, mayWait bool) error {
	if p.Username() == "" {
		var me tele.User
		if err := p.call(ctx, "getMe", nil, &me); err != nil {
			return err
		}
		if me.Username == "" {
			return &Error{Failure: Server, Description: "the answer is not what was asked for"}
		}
		p.change(func(s *State) { s.Username = me.Username })
	}
	params := map[string]any{"limit": p.limit, "timeout": 0, "allowed_updates": kinds()}
	if mayWait && !p.quick {
		params["timeout"] = int(pollTime / time.Second)
	}
	offset := p.ledger.offset()
	if offset != 0 {
		params["offset"] = offset
	}
	var updates []json.RawMessage
	if err := p.call(ctx, "getUpdates", params, &updates); err != nil {
		return err
	}
	p.ledger.acknowledged(offset)
	for _, raw := range updates {
		p.hand(raw)
	}
	return nil
}

// hand passes one update on. One that cannot be read is acknowledged as it is.
func (p *poll) hand(raw json.RawMessage) {
	var u Update
	if err := json.Unmarshal(raw, &u.Update); err != nil {
		var id struct {
			ID int `json:"update_id"`
		}
		if json.Unmarshal(raw, &id) == nil && p.ledger.begin(id.ID) {
			p.Ignored()
			p.ledger.done(id.ID)
		}
		return
	}
	id := u.ID
	if !p.ledger.begin(id) {
		return
	}
	u.Done = func() { p.ledger.done(id) }
	p.take(u)
}

func (p *poll) succeeded() {
	p.limit, p.quick = batch, false
	p.preferFirst()
	// Who polls in turn with another succeeds now and then.
	fighting := time.Since(p.fought) < p.settings.Patience
	if !fighting {
		p.fails = 0
	}
	p.change(func(s *State) {
		if !fighting || s.Failure != Conflict {
			s.Working, s.Failure, s.Failures, s.Retry = true, 0, 0, time.Time{}
		}
	})
}

// preferFirst goes back to the first address after a while.
func (p *poll) preferFirst() {
	if p.at.used.Load() == 0 {
		p.working = time.Time{}
	} else if p.working.IsZero() {
		p.working = time.Now()
	} else if time.Since(p.working) > stays {
		p.working = time.Time{}
		p.at.used.Store(0)
	}
}

// failed waits before the next poll: one second, three, nine, up to a minute, and
// for as long as the API says.
func (p *poll) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	failure := FailureOf(err)
	p.fails++
	wait := lastWait
	if p.fails < 5 {
		wait = firstWait
		for range p.fails - 1 {
			wait *= 3
		}
	}
	wait += rand.N(wait / 5)
	wait = max(wait, RetryAfter(err))
	p.working, p.quick = time.Time{}, true
	if failure == Conflict {
		p.fought = time.Now()
	}
	if failure == Network || failure == Server {
		p.limit = 1 // what is too large together may do one by one
		if p.fails%2 == 0 {
			p.at.next()
		}
	}
	p.change(func(s *State) {
		s.Failures, s.Retry = p.fails, time.Now().Add(wait)
		if failure == Conflict && time.Since(p.begun) < p.settings.Patience {
			return
		}
		s.Working, s.Failure = false, failure
	})
	if failure == Conflict && says(err, "webhook") {
		// One that was set before: nobody can poll until it is gone.
		_ = p.call(ctx, "deleteWebhook", nil, nil)
	}
	pause(ctx, wait)
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
