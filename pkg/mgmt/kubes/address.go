package kubes

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	addressEvery = 30 * time.Second
	addressTime  = 10 * time.Second
	// addressBad is how many tries in a row must fail before an address is down:
	// one that is lost tells nothing.
	addressBad = 3
	maxWhy     = 200
)

// Resolver looks up names; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Lookout looks from this server, outside the clusters, whether their addresses
// lead to entries. An address is up after one good try, and down after three bad
// ones. A Lookout is for one term of the office.
type Lookout struct {
	// Service is the name of the subscription service and the certificate that this
	// server shows for it: an address that leads into the mesh answers with it. With
	// "" or nil, an open port is enough.
	Service  func() (mesh.ServerName, *tls.Certificate)
	Resolver Resolver // nil: this machine's
	// Dial is nil for the usual one.
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Every time.Duration // between two tries; 0 is 30 s
	Time  time.Duration // that one may take; 0 is 10 s
	Log   *slog.Logger

	mu       sync.Mutex // guards what is below
	watched  map[mesh.KubeID][]*look
	wake     chan struct{} // closed when something new is to be tried
	changed  chan struct{} // closed when something is seen otherwise
	prepared bool
}

// look is one address under observation.
type look struct {
	mesh.KubeAddress
	bad    int // tries in a row
	due    time.Time
	trying bool
}

func (l *Lookout) prepareLocked() {
	if l.prepared {
		return
	}
	l.prepared, l.watched = true, map[mesh.KubeID][]*look{}
	l.wake, l.changed = make(chan struct{}), make(chan struct{})
}

// Watch says which addresses of a cluster are to be looked at from now on. What
// was seen of those that stay is kept; of the others, what was says it if it names
// them, as it was seen by whoever had the office before.
func (l *Lookout) Watch(cluster mesh.KubeID, addresses, was []mesh.KubeAddress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepareLocked()
	old := l.watched[cluster]
	var next []*look
	fresh := false
	for _, a := range addresses {
		i := slices.IndexFunc(old, func(k *look) bool { return same(k.KubeAddress, a) })
		if i >= 0 {
			next = append(next, old[i])
			continue
		}
		fresh = true
		if i := slices.IndexFunc(was, func(o mesh.KubeAddress) bool { return same(o, a) }); i >= 0 {
			a.Up, a.Since, a.Why, a.Tried = was[i].Up, was[i].Since, was[i].Why, was[i].Tried
		}
		next = append(next, &look{KubeAddress: a})
	}
	l.watched[cluster] = next
	if len(next) == 0 {
		delete(l.watched, cluster)
	}
	if fresh {
		close(l.wake)
		l.wake = make(chan struct{})
	}
}

func same(a, b mesh.KubeAddress) bool {
	return a.Host == b.Host && a.Port == b.Port && a.Source == b.Source
}

// Seen are the addresses that Watch named, as they were last seen.
func (l *Lookout) Seen(cluster mesh.KubeID) []mesh.KubeAddress {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []mesh.KubeAddress
	for _, k := range l.watched[cluster] {
		out = append(out, k.KubeAddress)
	}
	return out
}

// Changed is closed when an address next goes up or down, fails otherwise than
// before, or is first tried. Take it before Seen.
func (l *Lookout) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepareLocked()
	return l.changed
}

// Run looks at the addresses until ctx ends.
func (l *Lookout) Run(ctx context.Context) error {
	var tries sync.WaitGroup
	defer tries.Wait()
	for {
		wake, next := l.begin(ctx, &tries)
		pause := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-wake:
			pause.Stop()
		case <-pause.C:
		}
	}
}

// begin starts the tries that are due, and says when the next one is. They do not
// wait for each other: a cluster that swallows packets holds up no other.
func (l *Lookout) begin(ctx context.Context, tries *sync.WaitGroup) (wake <-chan struct{}, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepareLocked()
	now := time.Now()
	next = now.Add(l.every())
	for cluster, all := range l.watched {
		for _, k := range all {
			switch {
			case k.trying:
			case k.due.After(now):
				next = earlier(next, k.due)
			default:
				k.trying = true
				up := upOf(all)
				tries.Go(func() { l.settle(ctx, cluster, k, l.try(ctx, k.KubeAddress, up)) })
			}
		}
	}
	return l.wake, next
}

func (l *Lookout) every() time.Duration { return cmp.Or(l.Every, addressEvery) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// upOf are the addresses that a name may lead to.
func upOf(all []*look) []mesh.KubeAddress {
	var up []mesh.KubeAddress
	for _, k := range all {
		if k.Up && k.Source != mesh.AddressName {
			up = append(up, k.KubeAddress)
		}
	}
	return up
}

// settle takes note of a try. What the end of ctx broke off tells nothing.
func (l *Lookout) settle(ctx context.Context, cluster mesh.KubeID, k *look, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before := k.KubeAddress
	turned := k.note(now.UTC(), err)
	every := l.every()
	k.trying, k.due = false, now.Add(every-every/10+rand.N(every/5+1))
	if turned && k.Source != mesh.AddressName {
		l.reconsiderLocked(cluster)
	}
	// What was tried comes back into the loop's reckoning of what is due next.
	close(l.wake)
	l.wake = make(chan struct{})
	if !turned && k.Why == before.Why && !before.Tried.IsZero() {
		return
	}
	close(l.changed)
	l.changed = make(chan struct{})
	if l.Log != nil && turned {
		l.Log.Info("address of entries judged", "object", "kube/"+string(cluster), "addr", k.HostPort(), "to", k.word(), "reason", k.Why)
	}
}

// reconsiderLocked has names looked up again at once: what they lead to has
// changed.
func (l *Lookout) reconsiderLocked(cluster mesh.KubeID) {
	for _, k := range l.watched[cluster] {
		if k.Source == mesh.AddressName {
			k.due = time.Time{}
		}
	}
}

func (k *look) word() string {
	if k.Up {
		return "up"
	}
	return "down"
}

// note takes the outcome of a try, and says whether the address went up or down.
func (k *look) note(now time.Time, err error) (turned bool) {
	k.Tried = now
	if err == nil {
		turned = !k.Up
		k.bad, k.Up, k.Why = 0, true, ""
	} else {
		k.bad++
		if k.Up && k.bad < addressBad {
			return false
		}
		turned = k.Up
		why := mesh.Plain(err)
		k.Up, k.Why = false, why[:min(len(why), maxWhy)]
	}
	if turned || k.Since.IsZero() {
		k.Since = now
	}
	return turned
}
