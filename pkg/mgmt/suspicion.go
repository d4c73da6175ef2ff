package mgmt

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// suspicion counts wrong join tokens, or pods that were not let in, by address, and tells people of them
// without letting a stranger fill the store.
type suspicion struct {
	store *store.Store
	log   *slog.Logger
	now   func() time.Time
	wrong *ratelimit.Limiter[netip.Addr]
	told  *ratelimit.Limiter[telling] // one event of a type per address and ten minutes
	all   *rate.Limiter               // and few in all
}

// telling is what is told of one address.
type telling struct {
	from netip.Addr
	what mesh.EventType
}

func newSuspicion(s *store.Store, perMinute int, log *slog.Logger, now func() time.Time) *suspicion {
	return &suspicion{
		store: s,
		log:   log,
		now:   now,
		wrong: ratelimit.New[netip.Addr](rate.Limit(perMinute)/60, perMinute),
		told:  ratelimit.New[telling](rate.Every(10*time.Minute), 1),
		all:   rate.NewLimiter(rate.Every(10*time.Second), 20),
	}
}

// tooMany says whether the address has presented too many wrong tokens.
func (s *suspicion) tooMany(from netip.Addr) bool {
	return s.wrong.Empty(ratelimit.Block(from), s.now())
}

// guessed counts a token that is unknown or has another secret.
func (s *suspicion) guessed(ctx context.Context, from netip.Addr) {
	s.wrong.Allow(ratelimit.Block(from), s.now())
	s.tell(ctx, from, mesh.Event{
		Type:     mesh.EventTokenGuess,
		Severity: mesh.Warning,
		Object:   "address/" + from.String(),
		Cause:    "a join token that does not exist, or with a wrong secret, was presented",
		Advice:   "nothing, if somebody mistyped; otherwise keep the address out",
	})
}

// strange counts a pod that was not let in, and says why to those who may know.
func (s *suspicion) strange(ctx context.Context, from netip.Addr, why error) {
	s.wrong.Allow(ratelimit.Block(from), s.now())
	s.tell(ctx, from, mesh.Event{
		Type:     mesh.EventTokenGuess,
		Severity: mesh.Warning,
		Object:   "address/" + from.String(),
		Cause:    "somebody who says to be a pod was not let in: " + why.Error(),
		Advice:   "nothing, if that pod is gone by now; otherwise see where it runs: only the entry layer's own account is let in",
	})
}

// reused counts a used token in the hands of another key.
func (s *suspicion) reused(ctx context.Context, from netip.Addr, id mesh.TokenID) {
	s.wrong.Allow(ratelimit.Block(from), s.now())
	s.tell(ctx, from, mesh.Event{
		Type:     mesh.EventTokenReused,
		Severity: mesh.Warning,
		Object:   "token/" + string(id),
		Cause:    fmt.Sprintf("presented again by another key, from %s", from),
		Advice:   "if the node it was for did not join, revoke the one that did: the token was stolen",
	})
}

func (s *suspicion) tell(ctx context.Context, from netip.Addr, ev mesh.Event) {
	now := s.now()
	if !s.told.Allow(telling{ratelimit.Block(from), ev.Type}, now) || !s.all.AllowN(now, 1) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, err := s.store.Update(ctx, func(tx *store.Tx) error { return tx.Event(ev) })
	if err != nil {
		s.log.Warn("event lost", "reason", ev.Type, "err", err)
	}
}
