package kubes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// podNew is how long after it has joined an entry may be a pod that no
	// observation has: clocks differ, and watches are late.
	podNew = time.Minute
	// podsAtOnce is how many entries one change is about.
	podsAtOnce = 30
)

// policy is whether the pods of a cluster find shut what they may not reach. One
// that found it open counts more than all others; while none says anything, what was
// found before counts.
func (t *term) policy(c mesh.KubeCluster, st mesh.KubeState) mesh.KubePolicy {
	rel := c.Ordered(st)
	switch {
	case rel.Number == 0:
		return mesh.PolicyUnknown
	case rel.Layer.OpenNetwork:
		return mesh.PolicyNone
	}
	found := mesh.PolicyUnknown
	for id, e := range t.entries.All() {
		if e.Pod.Cluster != c.ID || e.Revoked || !e.Pod.Gone.IsZero() {
			continue
		}
		switch n, _ := t.status.Get("entry/" + string(id)); n.Policy {
		case mesh.PolicyOpen:
			return mesh.PolicyOpen
		case mesh.PolicyEnforced:
			found = mesh.PolicyEnforced
		case mesh.PolicyUnknown, mesh.PolicyNone:
		}
	}
	if found == mesh.PolicyUnknown && st.Policy != mesh.PolicyNone {
		return st.Policy
	}
	return found
}

// judgePods marks entries whose pods the clusters no longer have, and takes that
// back of those that are there after all.
func (t *term) judgePods(ctx context.Context, clusters map[mesh.KubeID]mesh.KubeCluster) error {
	now := t.now()
	present := map[mesh.KubeID]map[string]bool{}
	verdict := map[mesh.EntryID]bool{} // gone or not, of those of which that is not on record
	for id, e := range t.entries.All() {
		if e.Pod.Cluster == "" {
			continue
		}
		if _, ok := present[e.Pod.Cluster]; !ok {
			present[e.Pod.Cluster] = t.podsOf(clusters, e.Pod.Cluster)
		}
		have := present[e.Pod.Cluster]
		there, known := have[e.Pod.UID], have != nil
		if known && there != e.Pod.Gone.IsZero() && (there || t.seenSince(clusters, e)) {
			verdict[id] = !there
		}
	}
	var errs []error
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(verdict)), podsAtOnce) {
		errs = append(errs, t.markPods(ctx, ids, verdict, now))
	}
	return errors.Join(errs...)
}

// podsOf are the UIDs of the pods that a cluster has; nil when that is not known. A
// cluster in which nothing is wanted has none that count.
func (t *term) podsOf(clusters map[mesh.KubeID]mesh.KubeCluster, id mesh.KubeID) map[string]bool {
	have := map[string]bool{}
	c, ok := clusters[id]
	if !ok || idle(c) {
		return have
	}
	o := t.sight(id).about(c)
	if o == nil || o.Failure != kube.NoFailure || len(o.Pods)+len(o.More) < o.Tally.All {
		return nil
	}
	for _, p := range o.Pods {
		have[p.UID] = true
	}
	for _, uid := range o.More {
		have[uid] = true
	}
	return have
}

// seenSince says whether the cluster was looked at well after an entry joined.
func (t *term) seenSince(clusters map[mesh.KubeID]mesh.KubeCluster, e mesh.Entry) bool {
	at := t.now()
	if c, ok := clusters[e.Pod.Cluster]; ok && !idle(c) {
		at = t.sight(e.Pod.Cluster).last.At
	}
	return at.Sub(e.Joined) > podNew
}

func (t *term) markPods(ctx context.Context, ids []mesh.EntryID, gone map[mesh.EntryID]bool, now time.Time) error {
	_, err := t.Store.Change(ctx, store.By{Actor: actor}, "entry.pods", func(tx *store.Tx) error {
		for _, id := range ids {
			e, err := store.Get(tx, t.Store.Entries, id)
			if errors.Is(err, mesh.ErrNotFound) || err == nil && !e.Pod.Gone.IsZero() == gone[id] {
				continue
			}
			if err != nil {
				return err
			}
			err = store.Update(tx, t.Store.Entries, id, func(e *mesh.Entry) error {
				e.Pod.Gone = time.Time{}
				if gone[id] {
					e.Pod.Gone = now
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
