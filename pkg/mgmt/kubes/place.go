package kubes

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// place takes note of which namespace it is that the connection leads to. One that was
// made anew under the same name is taken as it is, and told: what was there is applied
// again by itself.
func (t *term) place(ctx context.Context, c mesh.KubeCluster) error {
	o := t.sight(c.ID).about(c)
	if o == nil || o.Failure != kube.NoFailure || o.NamespaceUID == "" || o.NamespaceUID == c.NamespaceUID {
		return nil
	}
	if t.shared(c, o) != "" {
		return nil // told as a problem: it is not known whose it is to be
	}
	_, err := t.Store.Change(ctx, store.By{Actor: actor}, "kube.namespace", func(tx *store.Tx) error {
		all, err := store.List(tx, t.Store.Kubes)
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.NamespaceUID == o.NamespaceUID {
				return fmt.Errorf("kubes: the namespace of %s is known already: %w", c.Name, mesh.ErrConflict)
			}
		}
		was := ""
		err = store.Update(tx, t.Store.Kubes, c.ID, func(c *mesh.KubeCluster) error {
			if mark(*c) != o.Mark {
				return fmt.Errorf("kubes: %s is reached otherwise by now: %w", c.Name, mesh.ErrConflict)
			}
			was, c.NamespaceUID = c.NamespaceUID, o.NamespaceUID
			return nil
		})
		if err != nil || was == "" {
			return err
		}
		return tx.Event(mesh.Event{
			Time: t.now(), Type: mesh.EventKubeDrift, Severity: mesh.Warning, Object: object(c.ID),
			Cause:  fmt.Sprintf("the namespace %s is another one than before: it was deleted and made anew, or the cluster was", c.Namespace),
			Advice: "what is wanted is applied again by itself; find out who did it",
		})
	})
	if errors.Is(err, mesh.ErrNotFound) {
		return nil // the cluster was removed
	}
	return err
}

// shared is the name of another cluster of the mesh with the namespace that was seen;
// "" is none.
func (t *term) shared(c mesh.KubeCluster, o *kube.Observation) string {
	if o == nil || o.NamespaceUID == "" {
		return ""
	}
	for id, other := range t.kubes.All() {
		if id != c.ID && other.NamespaceUID == o.NamespaceUID {
			return other.Name
		}
	}
	return ""
}
