package entry

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// PolicyProbe finds out whether the network keeps a pod from what its
// NetworkPolicy forbids, by trying the API of the cluster: it is always there, and
// never permitted.
//
//	unknown ──no answer──▶ enforced ──answered, opens times in a row──▶ open
//	   └──────answered, opens times in a row──▶ open ──no answer, shuts times──▶ enforced
//
// Only an answer in bytes counts: a refusal may come from the policy, and a proxy
// beside the pod accepts whatever it is asked for. Some networks put a policy in
// force a moment after the pod's start, and an API that is down answers nobody, so
// it takes more than one look to change a verdict.
type PolicyProbe struct {
	Address string // host:port
	// Every is the time between looks while all is well; Soon that while
	// the verdict is about to change, and Open that while the way is open. Wait is
	// how long an answer may take. 0: 10 min, 10 s, 1 min, 5 s.
	Every, Soon, Open, Wait time.Duration
	// Changed is told of a new verdict; nil: nobody is.
	Changed chan<- struct{}
	Log     *slog.Logger

	verdict atomic.Value // of mesh.KubePolicy
}

const (
	opens = 3
	shuts = 5
)

// Verdict is what was found so far. A nil probe finds nothing.
func (p *PolicyProbe) Verdict() mesh.KubePolicy {
	if p == nil {
		return mesh.PolicyUnknown
	}
	v, _ := p.verdict.Load().(mesh.KubePolicy)
	return v
}

// Run looks until ctx ends, and then returns nil.
func (p *PolicyProbe) Run(ctx context.Context) error {
	for same := 0; ctx.Err() == nil; {
		answered := p.answers(ctx)
		if ctx.Err() != nil {
			break
		}
		was := p.Verdict()
		if against := answered != (was == mesh.PolicyOpen); against {
			same++
		} else {
			same = 0
		}
		is, wait := p.next(was, answered, same)
		if is != was {
			same = 0
			p.decided(was, is)
		}
		pause(ctx, wait+rand.N(wait/10+1))
	}
	return nil
}

// next is the verdict after a look, the same-th in a row that speaks against the
// one before, and how long that holds.
func (p *PolicyProbe) next(was mesh.KubePolicy, answered bool, same int) (mesh.KubePolicy, time.Duration) {
	every, soon, open := or(p.Every, 10*time.Minute), or(p.Soon, 10*time.Second), or(p.Open, time.Minute)
	switch {
	case answered && (was == mesh.PolicyOpen || same >= opens):
		return mesh.PolicyOpen, open
	case answered:
		return was, soon
	case was == mesh.PolicyOpen && same < shuts:
		return was, open
	}
	return mesh.PolicyEnforced, every
}

func (p *PolicyProbe) decided(was, is mesh.KubePolicy) {
	p.verdict.Store(is)
	level := slog.LevelInfo
	if is == mesh.PolicyOpen {
		level = slog.LevelWarn
	}
	p.Log.Log(context.Background(), level, "network policy tried", "from", string(was), "to", string(is))
	select {
	case p.Changed <- struct{}{}: // never, when it is nil
	default:
	}
}

// answers says whether a byte came back. Nothing is said but the beginning of a
// TLS connection, whose end is not verified and not told anything.
func (p *PolicyProbe) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, or(p.Wait, 5*time.Second))
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return false
	}
	defer raw.Close()
	c := &hearing{Conn: raw}
	_ = tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}).HandshakeContext(ctx)
	return c.heard
}

// hearing notes that something was read.
type hearing struct {
	net.Conn
	heard bool
}

func (c *hearing) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard = c.heard || n > 0
	return n, err
}

func or(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}
