package kubes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// actor is who makes the changes of this package.
const actor mesh.Actor = "system:kubes"

// What begins problems that this server finds by itself.
const (
	notOrdered = "changes wait: "
	sharedWith = "its namespace is that of cluster "
)

// settle writes how a cluster is, when that is worth it.
func (t *term) settle(ctx context.Context, c mesh.KubeCluster) error {
	now, s := t.instant(), t.sight(c.ID)
	st, ok := t.states.Get(c.ID)
	t.watchAddresses(c, st, s)
	want, events := t.next(c, st, s, now)
	if ok && !t.worth(st, want, s, now) && len(events) == 0 {
		return nil
	}
	_, err := t.Store.Update(ctx, func(tx *store.Tx) error {
		c, err := store.Get(tx, t.Store.Kubes, c.ID)
		if err != nil {
			return err
		}
		have, err := store.Get(tx, t.Store.KubeStates, c.ID)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		want, events = t.next(c, have, s, now)
		if absent {
			err = store.Create(tx, t.Store.KubeStates, c.ID, want)
		} else {
			err = store.Update(tx, t.Store.KubeStates, c.ID, func(st *mesh.KubeState) error { *st = want; return nil })
		}
		for _, e := range events {
			err = errors.Join(err, tx.Event(e))
		}
		return err
	})
	if err != nil {
		if errors.Is(err, mesh.ErrNotFound) {
			return nil // the cluster was removed
		}
		return err
	}
	s.wrote = now
	t.note(c.ID, st, want, s, now)
	return nil
}

// note logs what has changed, once it is written.
func (t *term) note(id mesh.KubeID, was, is mesh.KubeState, s *sight, now time.Time) {
	if t.driftDue(s, now) {
		s.drift, s.told = nil, now
	}
	log := t.Log.With("object", object(id))
	if was.Contact != is.Contact {
		log.Info("contact with a cluster changed", "from", was.Contact, "to", is.Contact)
	}
	if was.Rollout.Phase != is.Rollout.Phase || was.Rollout.Release != is.Rollout.Release {
		log.Info("rollout in a cluster changed", "revision", is.Rollout.Release, "from", was.Rollout.Phase, "to", is.Rollout.Phase)
	}
}

// next is the state after this look.
func (t *term) next(c mesh.KubeCluster, st mesh.KubeState, s *sight, now time.Time) (mesh.KubeState, []mesh.Event) {
	heard, o := s.asked, s.about(c)
	if o != nil {
		heard = s.heard
	}
	p := pulse{silent: !s.asked.IsZero() && now.Sub(heard) > t.pace.Silence, still: s.still.lasts(now)}
	tells := t.driftDue(s, now)
	now = now.UTC()
	out, events := next(c, st, o, p, now)
	out.Problems = slices.DeleteFunc(slices.Clone(out.Problems), func(p string) bool {
		return strings.HasPrefix(p, notOrdered) || strings.HasPrefix(p, sharedWith)
	})
	if s.fault != "" {
		out.Problems = append(out.Problems, notOrdered+s.fault)
	}
	if other := t.shared(c, o); other != "" {
		out.Problems = append(out.Problems, sharedWith+other+", too: forget one of them (meshctl admin kube remove NAME --abandon)")
	}
	if idle(c) {
		s.put = 0
	}
	out.Server, out.Drift = t.Server, s.put
	out.Policy = t.policy(c, st)
	out.Addresses = t.lookout.Seen(c.ID)
	if tells {
		cause := "others changed what meshctl keeps, and it was put right: "
		if idle(c) {
			cause = "something of ours was left where no entries are wanted, and was removed: "
		}
		events = append(events, mesh.Event{Time: now, Type: mesh.EventKubeDrift, Severity: mesh.Info, Object: object(c.ID), Cause: cause + strings.Join(s.drift, ", ")})
	}
	return out, events
}

func (t *term) driftDue(s *sight, now time.Time) bool {
	return len(s.drift) > 0 && now.Sub(s.told) >= t.pace.Drift
}

// worth says whether a state is to be written: what somebody may wait for at once,
// figures from time to time.
func (t *term) worth(st, want mesh.KubeState, s *sight, now time.Time) bool {
	since := now.Sub(s.wrote)
	calm := func(v mesh.KubeState) mesh.KubeState {
		v.Seen, v.Pods, v.Tally, v.Drift = time.Time{}, nil, mesh.KubeTally{}, 0
		v.Rollout.Moved, v.Rollout.Desired, v.Rollout.Updated, v.Rollout.Ready, v.Rollout.Old = time.Time{}, 0, 0, 0, 0
		v.Addresses = slices.Clone(v.Addresses)
		for i := range v.Addresses {
			v.Addresses[i].Tried, v.Addresses[i].Why = time.Time{}, ""
		}
		return normal(v)
	}
	if !reflect.DeepEqual(calm(st), calm(want)) {
		return true
	}
	figures := func(v mesh.KubeState) mesh.KubeState {
		v.Seen = time.Time{}
		v.Addresses = nil
		return normal(v)
	}
	return since >= t.pace.Write && !reflect.DeepEqual(figures(st), figures(want)) || since >= t.pace.Beat && !reflect.DeepEqual(normal(st), normal(want))
}

// normal has no empty lists where the store has none.
func normal(v mesh.KubeState) mesh.KubeState {
	if len(v.Pods) == 0 {
		v.Pods = nil
	}
	if len(v.Conflicts) == 0 {
		v.Conflicts = nil
	}
	if len(v.Problems) == 0 {
		v.Problems = nil
	}
	if len(v.Addresses) == 0 {
		v.Addresses = nil
	}
	return v
}

// watchAddresses has the addresses looked at that the cluster says; before it has
// said anything, those that were known.
func (t *term) watchAddresses(c mesh.KubeCluster, st mesh.KubeState, s *sight) {
	rel := c.Ordered(st)
	switch o := s.about(c); {
	case rel.Number == 0:
		t.lookout.Watch(c.ID, nil, nil)
	case o != nil && o.Release == rel.Number && (o.Failure == kube.NoFailure || len(o.Addresses) > 0):
		t.lookout.Watch(c.ID, rel.Layer.WithDefaults().Addresses(o.Addresses), st.Addresses)
	case len(t.lookout.Seen(c.ID)) == 0:
		t.lookout.Watch(c.ID, st.Addresses, st.Addresses)
	}
}

// finish forgets what was wanted in a cluster that has been emptied.
func (t *term) finish(ctx context.Context, c mesh.KubeCluster) error {
	s := t.sight(c.ID)
	if o := s.about(c); !c.Removing || o == nil || o.Release != 0 || o.Failure != kube.NoFailure || !o.Removed {
		return nil
	}
	_, err := t.Store.Change(ctx, store.By{Actor: actor}, "entry.uninstalled", func(tx *store.Tx) error {
		st, err := store.Get(tx, t.Store.KubeStates, c.ID)
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		return store.Update(tx, t.Store.Kubes, c.ID, func(c *mesh.KubeCluster) error {
			if !c.Removing || s.about(*c) == nil {
				return fmt.Errorf("kubes: %s is not being emptied any more: %w", c.Name, mesh.ErrConflict)
			}
			if c.Wanted.Number != 0 {
				was := c.Wanted
				was.Failed = was.Number == st.Parked
				c.Earlier = append(slices.Clone(c.Earlier), was)
				c.Earlier = c.Earlier[max(0, len(c.Earlier)-mesh.MaxReleases):]
			}
			c.Wanted, c.Removing, c.Paused = mesh.EntryRelease{}, false, false
			return nil
		})
	})
	if err == nil {
		s.swept, s.drift = t.instant(), nil
		t.Log.Info("entries of a cluster taken away", "object", object(c.ID))
	}
	return err
}

// drop removes states of clusters that are no longer there.
func (t *term) drop(ctx context.Context, clusters map[mesh.KubeID]mesh.KubeCluster) error {
	for _, id := range slices.Sorted(maps.Keys(t.states.All())) {
		if _, ok := clusters[id]; ok {
			continue
		}
		_, err := t.Store.Update(ctx, func(tx *store.Tx) error {
			_, err := store.Get(tx, t.Store.Kubes, id)
			if !errors.Is(err, mesh.ErrNotFound) {
				return err
			}
			return store.Delete(tx, t.Store.KubeStates, id)
		})
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
	}
	return nil
}
