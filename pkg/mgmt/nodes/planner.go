package nodes

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// config is the mesh-wide configuration as last seen.
func (s *Service) config() mesh.Config {
	c, _ := s.view.config.Get(store.ConfigKey)
	return c
}

// wants is what a node should have now.
func (s *Service) wants(p identity.Peer) want {
	w := want{mgmt: s.config().MgmtAddresses}
	if s.Collecting() {
		return w
	}
	w = s.plan.Load().wants(p.Identity)
	w.revs = s.revs.Load()
	w.mgmt = s.config().MgmtAddresses
	if s.IssuerRemoved(p) {
		w.renew = &controlpb.RenewNow{Serial: p.Serial, WithinNanos: int64(s.times.Renew)}
	}
	return w
}

// IssuerRemoved says whether the certificate that the peer showed was issued by
// a server that has been removed, so that it should be replaced soon.
func (s *Service) IssuerRemoved(p identity.Peer) bool {
	issuer, ok := s.view.servers.Get(mesh.IssuerOf(p.Leaf))
	return ok && issuer.State == mesh.ServerRemoved
}

// catchUp has the planner read what a node has seen already of the tables, from
// a server that was ahead of this one.
func (s *Service) catchUp(rev int64) {
	for {
		old := s.ahead.Load()
		if rev <= old {
			return
		}
		if s.ahead.CompareAndSwap(old, rev) {
			s.wakes.plan.nudge()
			return
		}
	}
}

// planner works out what nodes should have.
type planner struct {
	s    *Service
	seen [4]store.Rev // of the mirrors, when people were read last
	last *store.People
	rev  int64 // moment of last
}

// pass is one pass of the planner. People are read again only when a mirror
// says that something about them changed. It wants to run again when a name ends.
func (p *planner) pass(ctx context.Context, full bool) (time.Time, error) {
	s, v := p.s, p.s.view
	seen := [4]store.Rev{v.members.Rev(), v.devices.Rev(), v.cells.Rev(), v.spent.Rev()}
	if full || seen != p.seen || p.rev < s.ahead.Load() {
		last, rev, err := readPeople(ctx, s.Store)
		if err != nil {
			return time.Time{}, err
		}
		p.seen, p.last, p.rev = seen, last, rev
	}
	now := time.Now()
	s.plan.Store(s.plan.Load().next(now, input{
		people: p.last, rev: p.rev, cores: v.cores.All(), rollouts: v.rollouts.All(),
	}))
	for _, se := range s.hub.all() {
		nudge(se.wake)
	}
	return nextNameEnd(v.devices.All(), v.cells.All(), now), nil
}

// ownAddresses are where the mesh itself answers.
type ownAddresses struct {
	all   []netip.AddrPort
	names map[string][]netip.AddrPort // by host:port, so that a name which stops resolving keeps what it had
}

// resolveOwn is one pass that looks up the addresses of management and of the
// entries. A changed answer has cores dialled again under the new policy.
func (s *Service) resolveOwn(ctx context.Context, _ bool) (time.Time, error) {
	c := s.config()
	old := s.own.Load()
	next := &ownAddresses{names: s.lookUpAll(ctx, slices.Concat(c.MgmtAddresses, c.EntryAddresses, s.kubes().Known()), old)}
	for _, some := range next.names {
		next.all = append(next.all, some...)
	}
	slices.SortFunc(next.all, netip.AddrPort.Compare)
	next.all = slices.Compact(next.all)
	if old != nil && slices.Equal(old.all, next.all) {
		next.all = old.all
	} else {
		s.wakes.rollout.nudge()
		for _, se := range s.hub.all() {
			nudge(se.poke)
		}
	}
	s.own.Store(next)
	return time.Time{}, nil
}

// kubes are the clusters that entries run in, and how they are.
func (s *Service) kubes() mesh.Kubes {
	return mesh.Kubes{Clusters: s.view.kubes.All(), States: s.view.kubeStates.All()}
}

// lookUpAll resolves all at once, since each may take seconds.
func (s *Service) lookUpAll(ctx context.Context, hostports []string, old *ownAddresses) map[string][]netip.AddrPort {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex // guards out
		out = map[string][]netip.AddrPort{}
	)
	for _, hostport := range hostports {
		wg.Go(func() {
			some, err := resolve(ctx, s.resolver(), hostport, 0)
			if err != nil {
				s.Log.Warn("address of the mesh not resolved", "addr", hostport, "err", err)
				some = old.of(hostport)
			}
			mu.Lock()
			defer mu.Unlock()
			out[hostport] = some
		})
	}
	wg.Wait()
	return out
}

func (o *ownAddresses) of(hostport string) []netip.AddrPort {
	if o == nil {
		return nil
	}
	return o.names[hostport]
}

// forEgress are the addresses no core lets traffic out to. Of loopback it is
// the port alone: the rest of it is another machine's there, and up to its owner.
func (o *ownAddresses) forEgress() []string {
	if o == nil {
		return nil
	}
	ips := map[string]bool{}
	for _, a := range o.all {
		if a.Addr().IsLoopback() {
			ips[a.String()] = true
			continue
		}
		ips[a.Addr().String()] = true
	}
	return slices.Sorted(maps.Keys(ips))
}

func (s *Service) policy() policy {
	var own []netip.AddrPort
	if o := s.own.Load(); o != nil {
		own = o.all
	}
	return newPolicy(s.config().AllowedAddresses, own)
}

func (s *Service) resolver() resolver {
	if s.Resolver != nil {
		return s.Resolver
	}
	return net.DefaultResolver
}

func (s *Service) dialer() *net.Dialer {
	if s.Dialer != nil {
		return s.Dialer
	}
	return &net.Dialer{}
}
