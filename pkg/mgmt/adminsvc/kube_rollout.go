package adminsvc

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func (s *Service) entryRollout(ctx context.Context, req admin.EntryRolloutRequest) (admin.KubeView, error) {
	deed := map[string]func(*mesh.KubeCluster, mesh.KubeState) error{
		"pause":  func(c *mesh.KubeCluster, _ mesh.KubeState) error { c.Paused = true; return nil },
		"resume": func(c *mesh.KubeCluster, _ mesh.KubeState) error { c.Paused = false; return nil },
		"undo":   func(c *mesh.KubeCluster, st mesh.KubeState) error { return s.undoRollout(ctx, c, st, req.To) },
	}[req.Action]
	if deed == nil {
		return admin.KubeView{}, fmt.Errorf("admin: rollout: action %q: want pause, resume or undo: %w", mesh.Quotable(req.Action), mesh.ErrInvalid)
	}
	return s.kubeChange(ctx, "entry.rollout."+req.Action, req.Ref, func(c *mesh.KubeCluster, st mesh.KubeState) error {
		if c.Wanted.Number == 0 || c.Removing {
			return nothingThere(*c)
		}
		return deed(c, st)
	})
}

func nothingThere(c mesh.KubeCluster) error {
	if c.Removing {
		return fmt.Errorf("admin: cluster %s: its entries are being taken away: %w", c.Name, mesh.ErrConflict)
	}
	return mesh.WithHint(fmt.Errorf("admin: cluster %s: no entries are deployed there: %w", c.Name, mesh.ErrConflict),
		"deploy some: meshctl admin entry deploy --cluster "+c.Name+" --image IMAGE")
}

// undoRollout makes a release of an earlier one's layer. Whoever undoes wants out
// now, so nothing stays paused.
func (s *Service) undoRollout(ctx context.Context, c *mesh.KubeCluster, st mesh.KubeState, to int64) error {
	r, err := earlier(*c, st, to)
	if err == nil {
		err = r.Layer.After(c.Wanted.Layer)
	}
	if err != nil {
		return err
	}
	why := fmt.Sprintf("undo of %d, as %d", c.Wanted.Number, r.Number)
	c.Paused = false
	s.release(ctx, c, st, r.Layer, why)
	return nil
}

// earlier is the release to go back to: the one that is named, or what ran before
// the one that is wanted.
func earlier(c mesh.KubeCluster, st mesh.KubeState, to int64) (mesh.EntryRelease, error) {
	var known []string
	var out mesh.EntryRelease
	for _, r := range c.Earlier {
		known = append(known, fmt.Sprint(r.Number))
		if r.Number == to || to == 0 && !r.Failed && r.Number != st.Parked && !reflect.DeepEqual(r.Layer, c.Wanted.Layer) {
			out = r
		}
	}
	// While the one that is wanted does not run yet, or failed, it is known which did.
	for _, r := range c.Earlier {
		if to == 0 && st.Ran != c.Wanted.Number && r.Number == st.Ran && !reflect.DeepEqual(r.Layer, c.Wanted.Layer) {
			out = r
		}
	}
	switch {
	case out.Number != 0:
		return out, nil
	case len(known) == 0:
		return out, fmt.Errorf("admin: cluster %s: there is no earlier release: %w", c.Name, mesh.ErrConflict)
	}
	return out, mesh.WithHint(fmt.Errorf("admin: cluster %s: release %d: %w", c.Name, to, mesh.ErrNotFound), "there are: "+strings.Join(known, ", "))
}

// entryUninstall has what was deployed taken away; the namespace stays.
func (s *Service) entryUninstall(ctx context.Context, req admin.Ref) (admin.KubeView, error) {
	return s.kubeChange(ctx, "entry.uninstall", req.Ref, func(c *mesh.KubeCluster, _ mesh.KubeState) error {
		if c.Wanted.Number == 0 {
			return nothingThere(*c)
		}
		if !c.Removing {
			c.Removals++
		}
		c.Removing, c.Paused = true, false
		return nil
	})
}
