package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Renewer replaces the node's certificate from two thirds of its life on,
// without dropping a connection. A certificate that has expired is still
// offered for renewal, since management may allow a grace period.
type Renewer struct {
	Node        *identity.Node
	Folder      *identity.Folder
	State       *State
	Revocations *identity.Revocations
	Log         *slog.Logger
	Dial        DialFunc // nil: net.Dialer
	// Early makes it renew before it is time; nil: nothing does.
	Early <-chan EarlyRenewal
	// Pod, when set, renews by proving anew what the pod is; Version is told then.
	Pod     *Pod
	Version string

	failure atomic.Pointer[string]
}

const (
	renewRetryMin = time.Minute
	renewRetryMax = time.Hour
	reachRetry    = 5 * time.Second
	earlyMax      = time.Hour // whatever the server says
)

// Failure says why the last renewal did not succeed, or "".
func (r *Renewer) Failure() string {
	if f := r.failure.Load(); f != nil {
		return *f
	}
	return ""
}

// Run renews whenever it is time until ctx ends, and then returns nil. A refusal
// is logged with what to do and asked again at most once a minute, because the
// operator may lift it.
func (r *Renewer) Run(ctx context.Context) error {
	wait := untilRenewal(r.Node, time.Now(), rand.Float64())
	var said outcome
	for failures := 0; r.pause(ctx, wait); {
		answered, err := r.renew(ctx)
		now := time.Now()
		if err == nil {
			failures, said = 0, outcome{}
			r.succeeded()
			wait = untilRenewal(r.Node, now, rand.Float64())
			continue
		}
		if ctx.Err() != nil {
			break
		}
		failures++
		is := outcome{at: now, answered: answered, expired: !now.Before(r.Node.Leaf().NotAfter)}
		wait = retryRenewal(r.Node.Leaf().NotAfter, now, failures, answered, rand.Float64())
		if r.failed(err, is, said, wait) {
			said = is
		}
	}
	return nil
}

// outcome is how a try to renew failed.
type outcome struct {
	at                time.Time
	answered, expired bool
}

// repeats says whether o was said already, less than a minute ago.
func (o outcome) repeats(said outcome) bool {
	return o.answered == said.answered && o.expired == said.expired && o.at.Sub(said.at) < renewRetryMin
}

// EarlyRenewal asks for a certificate to be replaced within a time, because it
// will not be believed for much longer.
type EarlyRenewal struct {
	Serial string // of the certificate, decimal
	Within time.Duration
}

// renewNow passes on what the server wants. One such wish at a time is enough:
// all are of the one certificate the node has.
func (p *PhoneHome) renewNow(m *controlpb.RenewNow) {
	select {
	case p.Early <- EarlyRenewal{Serial: m.GetSerial(), Within: time.Duration(m.GetWithinNanos())}:
	default:
	}
}

// pause waits for d, or less when management wants the certificate replaced. It
// is false when ctx ended.
func (r *Renewer) pause(ctx context.Context, d time.Duration) bool {
	due := time.Now().Add(d)
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case e := <-r.Early:
			soon := rand.N(min(max(e.Within, 1), earlyMax))
			if e.Serial == r.Node.Leaf().SerialNumber.String() && soon < time.Until(due) {
				r.Log.Info("certificate to be renewed early", "serial", e.Serial, "delay", soon)
				due = time.Now().Add(soon)
				t.Reset(soon)
			}
		}
	}
}

func (r *Renewer) succeeded() {
	r.failure.Store(nil)
	r.Log.Info("certificate renewed", "ends", r.Node.Leaf().NotAfter)
}

// failed keeps and logs the reason, and returns whether it was said aloud: once
// in a minute is enough for what is still so.
func (r *Renewer) failed(err error, is, said outcome, wait time.Duration) bool {
	text := err.Error()
	r.failure.Store(&text)
	args := []any{"err", err, "delay", wait}
	level := slog.LevelWarn
	if is.expired || errors.Is(err, mesh.ErrDenied) {
		level = slog.LevelError
		args = append(args, "expired", is.expired, "hint", r.hint())
	}
	aloud := !is.repeats(said)
	if !aloud {
		level = slog.LevelDebug
	}
	r.Log.Log(context.Background(), level, "certificate not renewed", args...)
	return aloud
}

// hint says what to do when it lasts.
func (r *Renewer) hint() string {
	if r.Pod != nil {
		return "see whether management and the cluster's API are well; if this entry was revoked, delete its pod: another takes its place"
	}
	return "if this lasts, join again with a new token: " + joinAgain(r.Node.Identity().Role)
}

// joinAgain is what brings a node of the role back with a new token.
func joinAgain(role mesh.Role) string {
	if role == mesh.RoleEntry {
		return "put it into token-file and restart the entry"
	}
	return "meshctl " + string(role) + " join --token-file FILE, then restart it"
}

// untilRenewal is the time until two thirds of the life have passed, and up to
// a tenth of it more by spread (0 to 1), so that nodes made together part.
func untilRenewal(n *identity.Node, now time.Time, spread float64) time.Duration {
	leaf := n.Leaf()
	issued := leaf.NotBefore.Add(mesh.Backdate)
	life := leaf.NotAfter.Sub(issued)
	due := issued.Add(time.Duration(float64(life) * (2.0/3 + spread/10)))
	return max(0, due.Sub(now))
}

// retryRenewal is the time to the next try after so many failures: doubling
// from a minute to an hour, soon enough for several tries while the
// certificate lasts, and after its end once a minute. A node without a
// certificate serves nobody: as long as no server answers, it tries to reach one
// every few seconds.
func retryRenewal(end, now time.Time, failures int, answered bool, spread float64) time.Duration {
	d := min(renewRetryMin<<min(failures-1, 10), renewRetryMax)
	if left := end.Sub(now); left > 0 {
		d = min(d, max(left/4, time.Second))
	} else if answered {
		d = renewRetryMin
	} else {
		d = reachRetry
	}
	return d + time.Duration(spread*float64(d)/2)
}

// renew asks each server in turn, with a key that stays the same until one
// answers. It returns whether one did, with whatever.
func (r *Renewer) renew(ctx context.Context) (answered bool, err error) {
	pending, err := r.Folder.NewRequest()
	if err != nil {
		return true, fmt.Errorf("control: renew: %w", err) // no matter of servers
	}
	var errs []error
	for _, addr := range order(r.addresses(), "") {
		resp, reached, err := r.ask(ctx, addr, pending.CSR())
		answered = answered || reached
		if err != nil {
			errs = append(errs, err)
			continue
		}
		node, err := r.Folder.Commit(pending, resp.GetChain())
		if err != nil {
			return true, fmt.Errorf("control: renew: %s: the server's answer: %w", addr, err)
		}
		r.Node.Replace(node)
		return true, r.State.SetAddresses(resp.GetMgmtAddresses())
	}
	return answered, fmt.Errorf("control: renew: %w", errors.Join(errs...))
}

// addresses are where to ask: a pod knows of more, where management moved while it
// was cut off.
func (r *Renewer) addresses() []string {
	addrs := r.State.Addresses()
	if r.Pod == nil {
		return addrs
	}
	more, err := r.Pod.Addresses()
	if err != nil {
		r.Log.Debug("addresses of management not read", "err", err)
	}
	return merged(addrs, more)
}

// ask asks one server, and returns whether it was reached.
func (r *Renewer) ask(ctx context.Context, addr string, csr []byte) (_ *controlpb.RenewResponse, reached bool, err error) {
	if r.Pod != nil {
		return r.Pod.renew(ctx, r, addr, csr)
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	expect := mesh.Identity{Mesh: r.Node.Identity().Mesh, Role: mesh.RoleMgmt}
	l, err := connect(ctx, r.Dial, addr, r.Node.ClientTLS(expect, r.Revocations, identity.ProtoGRPC), MaxMessage)
	if err != nil {
		return nil, errors.Is(err, mesh.ErrDenied), err
	}
	defer l.Close() // nothing follows that could be lost
	resp, err := controlpb.NewRenewalClient(l).Renew(ctx, &controlpb.RenewRequest{Csr: csr})
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", addr, l.explain(err))
	}
	return resp, true, nil
}
