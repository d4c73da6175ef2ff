package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// maxAsked is how many servers one question may go to.
	maxAsked = 3
	// tries is how often a server is asked that is the only one.
	tries = 2
)

// question is asked of one server and may be asked of others beside it.
type question[R any] struct {
	// ask puts the server's trailer where the pointer points.
	ask func(context.Context, *server, *metadata.MD) (R, error)
	// quorum says that the answer depends on other servers too, and so tells
	// nothing about the one that was asked.
	quorum bool
}

// asked is a question under way at a server.
type asked struct {
	server *server
	at     time.Time
}

type reply[R any] struct {
	asked
	value  R
	epoch  int64
	leader bool
	err    error
}

// ask asks the best server, and another one when that fails, answers without a
// leader, or takes longer than it usually does. The first good answer wins; one
// without a leader is used if no server gives another. The error is
// ErrUnavailable if no server answered or one is asked too much, ErrDenied if
// one refused.
//
//	best ──▶ answer ────────────────────────────────▶ used
//	  │ silent for its usual time                      ▲
//	  └──▶ next best, beside it ──▶ answers first ─────┘ the other is cancelled
//
// With the answer comes the mesh epoch that it is of.
func ask[R any](ctx context.Context, c *Client, q question[R]) (R, int64, error) {
	c.sync()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := race[R]{client: c, question: q, replies: make(chan reply[R], maxAsked)}
	return r.run(func(a asked) { wg.Go(func() { r.replies <- once(ctx, c, a, q, c.cfg.PerTry) }) })
}

type race[R any] struct {
	client   *Client
	question question[R]
	all      []*server // that were asked
	open     []asked   // and did not answer yet
	replies  chan reply[R]
	fallback *reply[R] // an answer without a leader
	errs     []error
}

func (r *race[R]) run(start func(asked)) (R, int64, error) {
	hedge := time.NewTimer(r.client.cfg.PerTry)
	defer hedge.Stop()
	begin := func(s *server) {
		a := asked{s, time.Now()}
		r.all, r.open = append(r.all, s), append(r.open, a)
		start(a)
		hedge.Reset(r.patience(s))
	}
	for {
		if len(r.open) == 0 {
			s := r.next()
			if s == nil {
				return r.end()
			}
			begin(s)
		}
		select {
		case <-hedge.C:
			if s := r.other(); s != nil {
				r.client.metrics.hedges.WithLabelValues(s.addr).Inc()
				begin(s)
			}
		case a := <-r.replies:
			r.open = slices.DeleteFunc(r.open, func(o asked) bool { return o == a.asked })
			if a.err == nil && a.leader || final(a.err) != nil {
				return r.won(a)
			}
			r.keep(a)
		}
	}
}

// patience is how long s may take before another is asked too.
func (r *race[R]) patience(s *server) time.Duration {
	if r.question.quorum {
		return r.client.cfg.PerTry / 2
	}
	return s.patience(r.client.cfg.PerTry / 2)
}

// other returns the best server that was not asked yet, or nil.
func (r *race[R]) other() *server {
	if len(r.all) == maxAsked {
		return nil
	}
	for _, s := range r.client.servers.order() {
		if !slices.Contains(r.all, s) {
			return s
		}
	}
	return nil
}

// next returns whom to ask when nobody is being asked: another server or, if
// there is only one, that one again.
func (r *race[R]) next() *server {
	if s := r.other(); s != nil {
		return s
	}
	order := r.client.servers.order()
	if r.fallback != nil || r.question.quorum || len(order) == 0 || len(r.all) >= tries {
		return nil
	}
	return order[0]
}

// won ends the race, and tells those who were asked before a that they are slow.
func (r *race[R]) won(a reply[R]) (R, int64, error) {
	if kind := final(a.err); kind != nil {
		return a.value, a.epoch, fmt.Errorf("gateway: ask %s: %w: %w", a.server.addr, a.err, kind)
	}
	for _, o := range r.open {
		if o.at.Before(a.at) && !r.question.quorum {
			o.server.overtaken(time.Since(o.at))
			r.client.metrics.answers.WithLabelValues(o.server.addr, "overtaken").Inc()
		}
	}
	return a.value, a.epoch, nil
}

// keep remembers a reply that is not good enough.
func (r *race[R]) keep(a reply[R]) {
	if a.err == nil {
		r.fallback = &a
		return
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %w", a.server.addr, a.err))
}

func (r *race[R]) end() (R, int64, error) {
	if r.fallback != nil {
		return r.fallback.value, r.fallback.epoch, nil
	}
	if len(r.errs) == 0 {
		r.errs = append(r.errs, errNobody)
	}
	var none R
	return none, 0, fmt.Errorf("gateway: ask management: %w: %w", errors.Join(r.errs...), mesh.ErrUnavailable)
}

// errNobody is the cause when no server is worth asking.
var errNobody = errors.New("no management server answers")

// final returns the kind of a refusal that asking another server would not
// change, or nil.
func final(err error) error {
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return mesh.ErrDenied
	case codes.ResourceExhausted: // the budget holds for all servers
		return mesh.ErrUnavailable
	}
	return nil
}

// once asks one server once, for most at most, and records how that went, unless
// the question was given up.
func once[R any](ctx context.Context, c *Client, a asked, q question[R], most time.Duration) reply[R] {
	try, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var trailer metadata.MD
	value, err := q.ask(try, a.server, &trailer)
	out := reply[R]{asked: a, value: value, leader: len(trailer.Get(NoLeader)) == 0, err: err}
	if err == nil {
		out.epoch, out.err = c.epochOf(trailer)
	}
	if ctx.Err() == nil && !q.quorum {
		c.judge(a, out.leader, out.err)
	}
	return out
}

// judge records how a server answered.
func (c *Client) judge(a asked, leader bool, err error) {
	if err != nil && final(err) == nil {
		c.metrics.answers.WithLabelValues(a.server.addr, "failed").Inc()
		if a.server.failed() {
			c.cfg.Log.Warn("management did not answer lookups", "to", a.server.addr, "err", err)
		}
		return
	}
	c.metrics.answers.WithLabelValues(a.server.addr, "answered").Inc()
	if !leader {
		c.metrics.noLeader.Inc()
	}
	if a.server.answered(time.Since(a.at), leader) {
		c.cfg.Log.Info("management answered lookups again", "to", a.server.addr)
	}
}
