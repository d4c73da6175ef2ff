package nodes

import (
	"context"
	"maps"
	"sync"
	"time"
)

// office is what servers elect one of them for: the work on nodes that is done
// once in the mesh.
const office = "nodes"

// leader is that work, for as long as this server holds the office:
//
//	collect              after a restore, before the rest: see collect
//	routes and targets   derived from devices, cells, cores and what cores acknowledged
//	absent               cores that no server sees are lost; statuses that dead servers left
//	totals               hours of traffic that are over are added up
//	quotas               whose traffic is used up
//	service              the name of the subscription service leads to the servers
//	upkeep               labels and paths that end or are due, and what older objects lack
//	cells                clients get into cells whose cores phone home, or that is told
//	meters               cells move what is usual, and cores count what entries relayed
//	rollouts             a changed configuration goes to one node of a group first
//
// Each of its writes carries the epoch of the office (store.Lead). It keeps
// nothing that the next leader would need: that one begins with full passes.
type leader struct {
	s *Service
	// since is when it began. Nobody is lost for not having been seen before,
	// when perhaps no server was there, or none reached the store.
	since time.Time
}

// lead does the work of the leader until ctx ends.
func (s *Service) lead(ctx context.Context) error {
	s.Log.Info("leadership taken", "unit", office)
	if !s.collect(ctx) {
		s.Log.Info("leadership ended", "unit", office, "reason", context.Cause(ctx).Error())
		return nil
	}
	l := &leader{s: s, since: time.Now()}
	routes, keeper, watch := &router{s: s}, &keeping{s: s}, newWatcher(l)
	var wg sync.WaitGroup
	for _, x := range []loop{
		{name: "routes", pass: routes.pass, wake: s.wakes.routes, settle: 10 * time.Millisecond, every: s.times.Pass},
		{name: "absent", pass: l.absent, wake: s.wakes.absent, settle: 500 * time.Millisecond, every: s.times.Pass},
		{name: "totals", pass: l.totals, wake: newSignal(), every: s.times.Pass},
		{name: "quotas", pass: l.quotas, wake: newSignal(), every: s.times.Meter},
		{name: "service", pass: l.serviceName, wake: s.wakes.service, settle: 10 * time.Millisecond, every: s.times.Pass},
		{name: "upkeep", pass: keeper.pass, wake: s.wakes.upkeep, settle: 100 * time.Millisecond, every: s.times.Pass},
		{name: "cells", pass: watch.pass, wake: s.wakes.cells, settle: 100 * time.Millisecond, every: s.times.Pass},
		{name: "meters", pass: watch.meters, wake: newSignal(), every: s.times.Pass},
		{name: "rollouts", pass: l.rollouts, wake: s.wakes.rollout, settle: 10 * time.Millisecond, every: s.times.Pass},
	} {
		x.log = s.Log
		wg.Go(func() { x.run(ctx) })
	}
	v, w := s.view, s.wakes
	for m, wake := range map[mirror][]signal{
		v.members:   {w.routes},
		v.devices:   {w.routes},
		v.cells:     {w.routes, w.rollout, w.upkeep, w.cells},
		v.cores:     {w.routes, w.rollout, w.absent, w.cells},
		v.entries:   {w.rollout, w.cells},
		v.reach:     {w.cells},
		v.cellWatch: {w.cells},
		v.spent:     {w.routes},
		v.status:    {w.routes, w.rollout, w.absent, w.cells},
		v.config:    {w.rollout, w.service, w.upkeep},
		v.servers:   {w.service},
		v.rollouts:  {w.rollout},
	} {
		wg.Go(func() { follow(ctx, m, wake...) })
	}
	wg.Wait()
	s.Log.Info("leadership ended", "unit", office, "reason", context.Cause(ctx).Error())
	return nil
}

// staleAfter is how long after its last sign a status that says "connected" is
// taken for what a dead server left, if no lease names the node.
func (l *leader) staleAfter() time.Duration { return l.s.times.Seen * 3 / 2 }

// absent is one pass that looks after nodes which no server sees.
func (l *leader) absent(ctx context.Context, _ bool) (time.Time, error) {
	alive, err := l.s.Store.AliveNodes(ctx)
	if err != nil {
		return time.Time{}, err
	}
	// A node whose stream is here is here, whatever the lease says.
	gone := func(node string) bool { _, held := alive[node]; return !held && l.s.hub.get(node) == nil }
	again, err := l.judgeAbsent(ctx, gone)
	if err != nil {
		return time.Time{}, err
	}
	next, err := l.mendStatus(ctx, maps.Clone(l.s.view.status.All()), gone)
	return sooner(again, next), err
}
