package entry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// errOvertaken ends an attempt at a core when another one has accepted.
var errOvertaken = errors.New("entry: another core answered before")

// answer is what became of an attempt at one core.
type answer struct {
	core   string
	stream *relay.Stream
	err    error
}

// connect opens a stream to the first target that accepts. The next one is asked
// when one has failed, or has said nothing for HedgeAfter; no byte of the client is
// spent on either before one has accepted. A core that refuses for good speaks for
// all of them; one that does not answer does not.
func (f *flow) connect(ctx context.Context, route mesh.Route, targets []mesh.Target) (*relay.Stream, Reason, error) {
	s := f.s
	header := relay.Header{ServerName: string(f.name), Device: string(route.Device), Trace: f.trace}
	if route.ForwardClientAddress {
		header.Client = f.client
	}
	s.cores.put(targets)
	r := race{s: s, header: header, left: s.cores.order(s.Node.Identity().Mesh, targets)}
	a, reason := r.run(ctx)
	f.core = a.core
	return a.stream, reason, a.err
}

// race asks cores one after another, and the next before the last has answered
// when that takes long.
type race struct {
	s       *Server
	header  relay.Header
	left    []mesh.Target // not asked yet
	asked   sync.WaitGroup
	answers chan answer
	waiting int // for so many
}

func (r *race) run(ctx context.Context) (winner answer, reason Reason) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.answers = make(chan answer, len(r.left))
	defer r.end(cancel)
	late := time.NewTimer(0)
	defer late.Stop()
	last, reason := answer{err: errors.New("entry: no core is known for the route")}, NoCore
	for len(r.left)+r.waiting > 0 {
		select {
		case <-late.C:
			r.next(ctx)
			late.Reset(r.s.HedgeAfter)
		case a := <-r.answers:
			r.waiting--
			if a.err == nil {
				return a, ""
			}
			if ctx.Err() != nil {
				return answer{err: context.Cause(ctx)}, ofEnd(context.Cause(ctx))
			}
			final := false
			if reason, final = r.s.count(a.err); final {
				return answer{err: a.err}, reason
			}
			last.err = a.err
			late.Reset(0)
		}
	}
	return last, reason
}

// next asks one more core, if there is one.
func (r *race) next(ctx context.Context) {
	if len(r.left) == 0 {
		return
	}
	id := r.left[0].ID
	r.left = r.left[1:]
	r.waiting++
	r.asked.Go(func() {
		st, err := r.s.openAt(ctx, id, r.header)
		r.answers <- answer{id, st, err}
	})
}

// end gives up the attempts under way. One that is accepted all the same has
// carried nothing.
func (r *race) end(cancel context.CancelCauseFunc) {
	cancel(errOvertaken)
	r.asked.Wait()
	close(r.answers)
	for a := range r.answers {
		if a.err == nil {
			a.stream.Reset(relay.CodeCanceled)
		}
	}
}

// count says what an error means, and whether it holds for every core.
func (s *Server) count(err error) (reason Reason, final bool) {
	if refused, ok := errors.AsType[*relay.RefusedError](err); ok {
		s.metrics.refusals.WithLabelValues(refused.Code.String()).Inc()
		return Refused, !refused.Retryable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Timeout, false
	}
	return NoCore, false
}

// openAt asks one core, and takes note of whether it answered. One that was
// overtaken counts as silent when it had its time.
func (s *Server) openAt(ctx context.Context, id string, h relay.Header) (*relay.Stream, error) {
	begin := time.Now()
	s.cores.want(id)
	open, cancel := context.WithTimeout(ctx, s.OpenTimeout)
	defer cancel()
	st, err := s.pool.Load().Open(open, id, h)
	if _, refused := errors.AsType[*relay.RefusedError](err); err == nil || refused {
		if s.cores.heard(id) {
			s.Log.Info("node answered again", "node", s.cores.node(id))
		}
		return st, err
	}
	blamed := ctx.Err() == nil || context.Cause(ctx) == errOvertaken && time.Since(begin) >= s.HedgeAfter
	if blamed && s.cores.silent(id, err) {
		s.Log.Warn("node did not answer", "node", s.cores.node(id), "err", err)
	}
	return st, err
}
