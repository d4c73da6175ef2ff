package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Service implements NodeControl. It serves streams while Run runs, and runs
// once.
type Service struct {
	controlpb.UnimplementedNodeControlServer

	Store       *store.Store
	Mesh        mesh.ID
	Server      mesh.ServerID
	Node        *identity.Node        // dials cores back
	Revocations *identity.Revocations // this server's own, which Run keeps up to date
	SignCell    CellSigner
	PublicCell  PublicCell // nil: there are no public certificates
	Log         *slog.Logger
	Settings    Settings
	Resolver    *net.Resolver // of the names that cores advertise; nil: the system's
	Dialer      *net.Dialer   // of dial-backs; nil: net's defaults
	// Superseded is told the root's word for a later epoch than this server's,
	// which a node has brought. It must not block. nil: nobody is.
	Superseded func(mesh.SignedEpoch)
	// Intermediates are the servers that are part of the mesh, by the serials of
	// their intermediates. nil: this server alone.
	Intermediates func(context.Context) (map[string]mesh.ServerID, error)

	hub    hub
	teller teller
	usage  usage
	relays relays
	pace   pace // of the loop "cores"

	// Made by Run before the first stream is let in.
	times  Settings
	view   *view
	alive  *store.Alive
	probes chan struct{} // slots for dial-backs
	wakes  wakes

	revs atomic.Pointer[revset]
	plan atomic.Pointer[plan]
	own  atomic.Pointer[ownAddresses]
	// epoch is what the root has signed; set before the first stream.
	epoch atomic.Pointer[proven]
	// collected is closed once the mesh may be served: after a restore, when it
	// has what its nodes know.
	collected chan struct{}
	// ahead is the latest moment that the device table of a node reflects.
	ahead atomic.Int64
}

// wakes are how loops are told that there is something to do.
type wakes struct {
	flush, judge, plan, revoke, resolve, tell, moved, epoch, collected, reach signal // on every server
	routes, absent, rollout, collect, service, upkeep, cells                  signal // while it leads
}

func newWakes() wakes {
	return wakes{
		flush: newSignal(), judge: newSignal(), plan: newSignal(), revoke: newSignal(), resolve: newSignal(), tell: newSignal(), moved: newSignal(), epoch: newSignal(), collected: newSignal(), reach: newSignal(),
		routes: newSignal(), absent: newSignal(), rollout: newSignal(), collect: newSignal(), service: newSignal(), upkeep: newSignal(), cells: newSignal(),
	}
}

// Run keeps every node told and the state of nodes true until ctx ends; then it
// says goodbye to the nodes that are connected and waits for their streams. It
// calls ready once it knows enough to serve the first stream.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.times, s.wakes = s.Settings.withDefaults(), newWakes()
	s.view = newView(s.Store)
	s.alive = &store.Alive{Store: s.Store, Server: s.Server, TTL: s.times.Lease}
	s.probes = make(chan struct{}, probesAtOnce)
	s.collected = make(chan struct{})
	s.teller.wake = s.wakes.tell

	// Loops outlive the streams, so that the last status of each is written.
	g, loops := errgroup.WithContext(context.WithoutCancel(ctx))
	loops, stop := context.WithCancel(loops)
	defer stop()
	g.Go(func() error { return s.view.run(loops) })
	g.Go(func() error { return s.alive.Run(loops) })
	if err := s.prepare(ctx); err == nil {
		s.runLoops(loops, g)
		s.hub.start(s.alive, s.leftOver())
		ready()
		<-ctx.Done()
		s.farewell()
	}
	stop()
	err := g.Wait()
	s.lastWrites(ctx)
	return err
}

// prepare returns when this server knows all that was revoked, and its mirrors
// are full. A server that cannot learn what was revoked must not serve.
func (s *Service) prepare(ctx context.Context) error {
	if err := s.view.synced(ctx); err != nil {
		return err
	}
	if _, err := s.followEpoch(ctx, true); err != nil {
		return err
	}
	if _, err := s.distribute(ctx, true); err != nil {
		return fmt.Errorf("nodes: apply revocations: %w", err)
	}
	if !s.config().Restored.Collecting() {
		close(s.collected)
	}
	_, err := s.resolveOwn(ctx, true)
	return err
}

func (s *Service) runLoops(ctx context.Context, g *errgroup.Group) {
	plans := &planner{s: s}
	for _, l := range []loop{
		{name: "revocations", pass: s.distribute, wake: s.wakes.revoke, every: s.times.Pass},
		{name: "plan", pass: plans.pass, wake: s.wakes.plan, settle: 10 * time.Millisecond, every: s.times.Pass},
		{name: "status", pass: s.flushStatus, wake: s.wakes.flush, settle: 10 * time.Millisecond, every: s.times.Seen},
		{name: "cores", pass: s.judgeCores, wake: s.wakes.judge, settle: 10 * time.Millisecond, every: s.times.Pass},
		{name: "moved", pass: s.letGo, wake: s.wakes.moved, settle: 10 * time.Millisecond, every: s.times.Pass},
		{name: "addresses", pass: s.resolveOwn, wake: s.wakes.resolve, settle: time.Second, every: s.times.Pass},
		{name: "collected", pass: s.openUp, wake: s.wakes.collected, every: s.times.Pass},
		{name: "epoch", pass: s.followEpoch, wake: s.wakes.epoch, every: s.times.Pass},
		{name: "usage", pass: s.flushUsage, wake: newSignal(), every: s.times.Meter},
		{name: "relayed", pass: s.flushRelayed, wake: newSignal(), every: s.times.Meter},
		{name: "reach", pass: s.judgeReach, wake: s.wakes.reach, settle: 100 * time.Millisecond, every: s.times.Pass},
		{name: "events", pass: s.writeEvents, wake: s.wakes.tell, settle: 10 * time.Millisecond, every: s.times.Pass},
	} {
		l.log = s.Log
		g.Go(func() error { l.run(ctx); return nil })
	}
	g.Go(func() error { s.watchContact(ctx); return nil })
	g.Go(func() error { return s.Store.Lead(ctx, office, s.Server, s.lead) })
	w, v := s.wakes, s.view
	for m, wake := range map[mirror][]signal{
		v.revocations: {w.revoke},
		v.members:     {w.plan},
		v.devices:     {w.plan},
		v.cells:       {w.plan},
		v.cores:       {w.plan, w.judge},
		v.status:      {w.moved},
		v.config:      {w.resolve, w.plan, w.epoch, w.collected},
		v.rollouts:    {w.plan},
		v.spent:       {w.plan},
		v.servers:     {w.plan},
	} {
		g.Go(func() error { follow(ctx, m, wake...); return nil })
	}
}

// farewell tells every node that this server goes, so that it turns to another
// at once, and waits until their streams have ended.
func (s *Service) farewell() {
	s.hub.stop()
	gone := make(chan struct{})
	go func() { s.hub.wg.Wait(); close(gone) }()
	t := time.NewTimer(s.times.Farewell)
	defer t.Stop()
	select {
	case <-gone:
		return
	case <-t.C:
	}
	s.hub.cut()
	<-gone
}

// leftOver are statuses of nodes that were connected here when this server died
// without writing that they no longer are.
func (s *Service) leftOver() []mesh.NodeStatus {
	var out []mesh.NodeStatus
	for _, st := range s.view.status.All() {
		if st.Connected && st.Server == s.Server {
			st.Connected = false
			out = append(out, st)
		}
	}
	return out
}

// lastWrites leaves the state true: who was connected here no longer is.
func (s *Service) lastWrites(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := s.flushStatus(ctx, false); err != nil {
		s.Log.Warn("last status not written", "err", err)
	}
	if _, err := s.flushUsage(ctx, false); err != nil {
		s.Log.Warn("last traffic not written", "err", err)
	}
	if _, err := s.flushRelayed(ctx, false); err != nil {
		s.Log.Warn("last counts of entries not written", "err", err)
	}
	if _, err := s.writeEvents(ctx, false); err != nil {
		s.Log.Warn("last events not written", "err", err)
	}
}

// Connected are the nodes whose streams are on this server, by role and id.
func (s *Service) Connected() []admin.NodeLine {
	var out []admin.NodeLine
	for _, se := range s.hub.all() {
		out = append(out, admin.NodeLine{
			Node: se.node, Name: s.nameOf(se.peer.Identity), Version: se.hello.GetVersion(),
			Connected: se.since, Observed: se.observed.String(),
		})
	}
	slices.SortFunc(out, func(a, b admin.NodeLine) int { return strings.Compare(a.Node, b.Node) })
	return out
}

func (s *Service) nameOf(id mesh.Identity) string {
	if id.Role == mesh.RoleCore {
		c, _ := s.view.cores.Get(mesh.CoreID(id.ID))
		return c.Name
	}
	e, _ := s.view.entries.Get(mesh.EntryID(id.ID))
	return e.Name
}
