package kubes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Pace is how often something is done. Zero fields have the defaults.
type Pace struct {
	Look  time.Duration // between two looks at everything; 2 s
	Write time.Duration // between two writes of figures of a cluster; 10 s
	Beat  time.Duration // after which a state is written although nothing has changed; 1 min
	Names time.Duration // between two lookups of where management is; 1 min
	Tries time.Duration // between two tries of an address; as Lookout.Every
	Drift time.Duration // between two events about changes of others; 10 min
	// Silence is how long the child may say nothing of a cluster; 2 min.
	Silence time.Duration
	// Sweep is between two looks for what is left in a cluster without entries; 10 min.
	Sweep time.Duration
}

func (p Pace) withDefaults() Pace {
	return Pace{
		Look: cmp.Or(p.Look, 2*time.Second), Write: cmp.Or(p.Write, 10*time.Second), Beat: cmp.Or(p.Beat, time.Minute),
		Names: cmp.Or(p.Names, time.Minute), Tries: p.Tries, Drift: cmp.Or(p.Drift, 10*time.Minute), Silence: cmp.Or(p.Silence, 2*time.Minute),
		Sweep: cmp.Or(p.Sweep, 10*time.Minute),
	}
}

// term is one time in the office.
type term struct {
	*Service
	pace    Pace
	epoch   kube.Epoch
	entries *store.Mirror[mesh.EntryID, mesh.Entry]
	status  *store.Mirror[string, mesh.NodeStatus]
	targets *store.Mirror[string, mesh.Target]
	config  *store.Mirror[string, mesh.Config]
	lookout *Lookout
	hosts   *hosts
	sights  map[mesh.KubeID]*sight
	said    map[string]string // the last fault of a part, so that each is logged once
}

// sight is what one leader knows of a cluster, beside its state. Its times are of the
// monotonic clock.
type sight struct {
	last  *kube.Observation // of what is ordered; nil: none yet
	heard time.Time         // when it came
	asked time.Time         // since when the child could have said something; zero: it is not asked
	still still             // since when nothing has moved
	swept time.Time         // when it was last looked for what is left; zero: not yet
	fault string            // why nothing new is ordered
	wrote time.Time         // the state
	drift []string          // what others changed, and nobody was told of yet
	put   int               // how often something was put right
	told  time.Time         // when people were told of that
}

// about is the last observation, if it is of the cluster as it is meant now; nil is
// none.
func (s *sight) about(c mesh.KubeCluster) *kube.Observation {
	if s.last == nil || s.last.Mark != mark(c) {
		return nil
	}
	return s.last
}

// Lead keeps the clusters as they should be until ctx ends.
func (s *Service) Lead(ctx context.Context) error {
	s.begin()
	t := &term{
		Service: s, pace: s.Pace.withDefaults(), epoch: kube.Epoch{Mesh: s.Epoch(), Leader: store.Epoch(ctx)},
		entries: store.NewMirror(s.Store.Entries), status: store.NewMirror(s.Store.Status),
		targets: store.NewMirror(s.Store.Targets), config: store.NewMirror(s.Store.Config),
		lookout: &Lookout{Service: s.Subscription, Resolver: s.Resolver, Every: s.Pace.Tries, Log: s.Log},
		hosts:   &hosts{resolver: s.Resolver}, sights: map[mesh.KubeID]*sight{}, said: map[string]string{},
	}
	own, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, run := range []func(context.Context) error{t.entries.Run, t.status.Run, t.targets.Run, t.config.Run, t.lookout.Run} {
		wg.Go(func() { _ = run(own) }) // each ends with own alone, and without an error
	}
	for _, synced := range []func(context.Context) error{s.kubes.Synced, s.states.Synced, t.entries.Synced, t.status.Synced, t.targets.Synced, t.config.Synced} {
		if err := synced(ctx); err != nil {
			return nil // ctx has ended
		}
	}
	wg.Go(func() { t.lookUp(own) })
	s.set(func() { s.works, s.came = map[mesh.KubeID]kube.Work{}, nil })
	defer s.set(func() { s.works, s.came = nil, nil })
	t.run(ctx)
	return nil
}

func (t *term) run(ctx context.Context) {
	tick := time.NewTicker(t.pace.Look)
	defer tick.Stop()
	for ctx.Err() == nil {
		kubes, states, entries, targets, config := t.kubes.Changed(), t.states.Changed(), t.entries.Changed(), t.targets.Changed(), t.config.Changed()
		addresses := t.lookout.Changed()
		t.look(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-t.wake:
		case <-kubes:
		case <-states:
		case <-entries:
		case <-targets:
		case <-config:
		case <-addresses:
		}
	}
}

// look does everything that there is to do. What fails is done again: clusters do
// not wait for each other.
func (t *term) look(ctx context.Context) {
	t.take()
	clusters := t.kubes.All()
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		c := clusters[id]
		t.step(ctx, "state", object(id), func() error { return t.settle(ctx, c) })
		t.step(ctx, "namespace", object(id), func() error { return t.place(ctx, c) })
		t.step(ctx, "removal", object(id), func() error { return t.finish(ctx, c) })
		t.step(ctx, "order", object(id), func() error { return t.order(c) })
	}
	t.forget(clusters)
	t.step(ctx, "pods", "", func() error { return t.judgePods(ctx, clusters) })
	t.step(ctx, "states", "", func() error { return t.drop(ctx, clusters) })
}

// step does something, and logs a fault when it is another than before.
func (t *term) step(ctx context.Context, part, about string, f func() error) {
	err := f()
	key, text := part+" "+about, ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && ctx.Err() == nil && t.said[key] != text && !errors.Is(err, mesh.ErrConflict) {
		t.Log.Warn("work for a cluster failed", "part", part, "object", about, "err", err)
	}
	t.said[key] = text
}

// take looks through what the child has said.
func (t *term) take() {
	var came []kube.Observation
	t.set(func() {
		for _, o := range t.came {
			if w, ok := t.works[o.Cluster]; ok && w.Mark == o.Mark {
				came = append(came, o)
			}
		}
		t.came = nil
	})
	for _, o := range came {
		s := t.sight(o.Cluster)
		s.last, s.heard = &o, t.instant()
		s.still.see(&o, s.heard)
		news := o.Drift
		if c, _ := t.kubes.Get(o.Cluster); idle(c) {
			news = o.Swept
		}
		s.drift = append(s.drift, news...)
		s.drift = s.drift[:min(len(s.drift), maxDrift)]
		s.put += len(o.Drift)
	}
}

// maxDrift bounds how many changes of others are kept to be told.
const maxDrift = 20

func (t *term) sight(id mesh.KubeID) *sight {
	s := t.sights[id]
	if s == nil {
		s = &sight{}
		t.sights[id] = s
	}
	return s
}

// forget drops what is known of clusters that are no longer there.
func (t *term) forget(clusters map[mesh.KubeID]mesh.KubeCluster) {
	maps.DeleteFunc(t.sights, func(id mesh.KubeID, _ *sight) bool { _, ok := clusters[id]; return !ok })
	t.set(func() {
		maps.DeleteFunc(t.works, func(id mesh.KubeID, _ kube.Work) bool { _, ok := clusters[id]; return !ok })
	})
}

// lookUp keeps what is known of where management is.
func (t *term) lookUp(ctx context.Context) {
	tick := time.NewTicker(t.pace.Names)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := t.config.Changed()
		cfg, _ := t.config.Get(store.ConfigKey)
		if t.hosts.look(ctx, cfg.MgmtAddresses, t.instant()) {
			t.nudge()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-changed:
		}
	}
}

// nudge has the leader look.
func (s *Service) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will
	}
}
