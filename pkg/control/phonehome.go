package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// PhoneHome opens the control stream to management and keeps it open.
//
//	resume the stored configuration
//	▶ dial the addresses in random order ─ none answers ─▶ back off ┐
//	│    │ hello, welcome                                           │
//	│    ▼                                                          │
//	│  stream ── lost, silent, refused ─▶ back off ────────────────▶│
//	│    └────── goodbye ─▶ a short random wait, other servers first│
//	└───────────────────────────────────────────────────────────────┘
type PhoneHome struct {
	Node        *identity.Node
	Folder      *identity.Folder // told when the newest certificate was accepted; nil: nobody
	State       *State
	Revocations *identity.Revocations
	Role        RoleHandler
	Version     string
	Log         *slog.Logger

	// Changed makes the next report leave early; nil: only ReportEvery counts.
	Changed <-chan struct{}
	// ReportEvery is the time between reports. Zero: 30 s.
	ReportEvery time.Duration
	// PingEvery is the time between pings; after two missed answers the
	// stream is replaced. Zero: 15 s.
	PingEvery time.Duration
	// Early is told when management wants the certificate renewed before it is
	// due; see Renewer.Early. Nil: nobody is.
	Early chan<- EarlyRenewal
	// Backoff spreads attempts. Its zero value: 500 ms to 60 s.
	Backoff Backoff
	Dial    DialFunc // nil: net.Dialer

	status atomic.Pointer[Status]
}

// Status is how the phone-home stands.
type Status struct {
	Connected bool
	Server    string    // role/id of the server, while connected
	Observed  string    // this node's address as the server sees it, or saw it last
	Since     time.Time // of the connection, or of its loss
	Err       string    // why there is none
}

const (
	// goodStream is how long a stream must have lasted to forget failures. While a
	// node backs off it learns of no revocation.
	goodStream = 10 * time.Second
	// goodbyeSpread bounds the random wait after a server said goodbye.
	goodbyeSpread = 3 * time.Second
)

// Status says how the phone-home stands.
func (p *PhoneHome) Status() Status {
	if s := p.status.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Run phones home until ctx ends, then says goodbye and returns nil. It
// returns ErrInvalid when the node knows no address of management.
func (p *PhoneHome) Run(ctx context.Context) error {
	if len(p.State.Addresses()) == 0 {
		return fmt.Errorf("control: phone home: no address of management is known: %w", mesh.ErrInvalid)
	}
	running := p.resume(ctx)
	last := ""
	for ctx.Err() == nil {
		if !p.valid(ctx) {
			break
		}
		var err error
		last, err = p.round(ctx, last, running)
		if ctx.Err() != nil {
			break
		}
		if s := p.Status(); s.Connected && time.Since(s.Since) >= goodStream {
			p.Backoff.Reset()
		}
		p.lost(err)
		sleep(ctx, p.delay(err))
	}
	return nil
}

// validTick is how often a node whose certificate has ended looks whether it was
// renewed, in memory.
const validTick = time.Second

// valid waits until the node has a certificate that has not ended: with another
// no server would let it in. It is false when ctx ended.
func (p *PhoneHome) valid(ctx context.Context) bool {
	for waited := false; ctx.Err() == nil; waited = true {
		end := p.Node.Leaf().NotAfter
		if time.Now().Before(end) {
			if waited {
				p.Backoff.Reset()
			}
			return true
		}
		if !waited {
			p.lost(fmt.Errorf("control: phone home: the certificate ended at %s, to be renewed first: %w", end.UTC().Format(time.RFC3339), mesh.ErrDenied))
		}
		sleep(ctx, validTick)
	}
	return false
}

func (p *PhoneHome) delay(err error) time.Duration {
	if errors.Is(err, errGoodbye) {
		return rand.N(goodbyeSpread)
	}
	return p.Backoff.Next()
}

// lost keeps and logs the reason; an unchanged one is not repeated above debug.
func (p *PhoneHome) lost(err error) {
	before := p.Status()
	next := Status{Since: time.Now(), Err: err.Error(), Observed: before.Observed}
	if !before.Connected && !before.Since.IsZero() {
		next.Since = before.Since
	}
	p.status.Store(&next)
	level := slog.LevelWarn
	if before.Err == next.Err {
		level = slog.LevelDebug
	}
	args := []any{"err", err}
	if hint := mesh.Hint(err); hint != "" {
		args = append(args, "hint", hint)
	}
	p.Log.Log(context.Background(), level, "phone-home lost", args...)
}

// resume puts the configuration in force that ran when the node stopped.
func (p *PhoneHome) resume(ctx context.Context) *running {
	r := &running{}
	c := p.State.Config()
	if c == nil {
		return r
	}
	if err := p.Role.ApplyConfig(ctx, c); err != nil {
		p.Log.Warn("stored configuration not applied", "revision", c.GetRevision(), "err", err)
		return r
	}
	r.config = c.GetRevision()
	return r
}

// running is what survives a stream but not a restart.
type running struct {
	config int64 // revision that runs
}

// round tries every address until one gives a stream, and stays with it. It
// returns the address it used and why the stream ended.
func (p *PhoneHome) round(ctx context.Context, last string, r *running) (string, error) {
	var errs []error
	for _, addr := range order(p.State.Addresses(), last) {
		opened, err := p.stream(ctx, addr, r)
		if opened || ctx.Err() != nil {
			return addr, fmt.Errorf("control: phone home: %w", err)
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("control: phone home: %w", errors.Join(errs...))
}

// order shuffles addrs; last, whose stream just ended, comes last.
func order(addrs []string, last string) []string {
	addrs = slices.Clone(addrs)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if i := slices.Index(addrs, last); i >= 0 {
		addrs = append(slices.Delete(addrs, i, i+1), last)
	}
	return addrs
}
