package mgmt

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// dropPods removes entries that were pods and never come again, once nobody can
// show a certificate of theirs any more: nothing else tells one pod's end from
// that of a thousand others, which a cluster makes and deletes as it likes.
func (k *keeper) dropPods(ctx context.Context) error {
	entries, _, err := k.store.Entries.List(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(entries, func(_ mesh.EntryID, e mesh.Entry) bool { return e.Pod.IsZero() })
	if len(entries) == 0 {
		return nil
	}
	clusters, _, err := k.store.Kubes.List(ctx)
	if err != nil {
		return err
	}
	certs, _, err := k.store.Certs.List(ctx)
	if err != nil {
		return err
	}
	last, now := lastOf(certs), k.now()
	maps.DeleteFunc(entries, func(id mesh.EntryID, e mesh.Entry) bool {
		_, has := clusters[e.Pod.Cluster]
		return !spent(e, last["entry/"+string(id)].NotAfter, has, now)
	})
	var errs []error
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(entries)), certBatch) {
		errs = append(errs, k.dropEntries(ctx, batch))
	}
	return errors.Join(errs...)
}

// spent says whether an entry that was a pod may be forgotten: its last certificate
// has ended, and its cluster has it no longer, or is no longer one of ours.
func spent(e mesh.Entry, ends time.Time, cluster bool, now time.Time) bool {
	signing := e.Joined.Add(time.Hour) // its first certificate may be on its way
	return now.After(ends) && now.After(signing) && (!e.Pod.Gone.IsZero() || !cluster)
}

func (k *keeper) dropEntries(ctx context.Context, ids []mesh.EntryID) error {
	count := 0
	_, err := k.store.Change(ctx, store.By{Actor: "system:keeper"}, "entry.forget", func(tx *store.Tx) error {
		count = 0
		for _, id := range ids {
			again, err := k.podAgain(tx, id)
			if err != nil {
				return err
			}
			if again {
				continue
			}
			if err := store.Delete(tx, k.store.Status, "entry/"+string(id)); err != nil && !errors.Is(err, mesh.ErrNotFound) {
				return err
			}
			if err := store.Delete(tx, k.store.Entries, id); err != nil {
				return err
			}
			count++
		}
		if count == 0 {
			return errAgain
		}
		return nil
	})
	if errors.Is(err, errAgain) {
		return nil
	}
	if err == nil {
		k.log.Info("gone pods forgotten", "count", count)
	}
	return err
}

// podAgain says whether the pod turned up since it was decided that it is gone, or
// was forgotten by another: it has just enrolled.
func (k *keeper) podAgain(tx *store.Tx, id mesh.EntryID) (bool, error) {
	e, err := store.Get(tx, k.store.Entries, id)
	if errors.Is(err, mesh.ErrNotFound) {
		return true, nil
	}
	if err != nil || !e.Pod.Gone.IsZero() {
		return false, err
	}
	_, err = store.Get(tx, k.store.Kubes, e.Pod.Cluster)
	if errors.Is(err, mesh.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
