package adminsvc

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// entryDeploy makes a release. The same layer once more is none, unless it had been
// given up: then it is tried again.
func (s *Service) entryDeploy(ctx context.Context, req admin.EntryDeployRequest) (admin.KubeView, error) {
	if !slices.Contains([]string{"deploy", "scale", "image"}, req.Why) {
		return admin.KubeView{}, fmt.Errorf("admin: deploy entries: why %q: want deploy, scale or image: %w", mesh.Quotable(req.Why), mesh.ErrInvalid)
	}
	_, r, _, err := s.proposed(ctx, req)
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeChange(ctx, "entry."+req.Why, req.Ref, func(c *mesh.KubeCluster, st mesh.KubeState) error {
		if err := deployable(*c, req.Base); err != nil {
			return err
		}
		if reflect.DeepEqual(c.Wanted.Layer, r.Layer) && st.Parked != c.Wanted.Number {
			return nil
		}
		s.release(ctx, c, st, r.Layer, req.Why)
		return nil
	})
}

// proposed is the release that a request would make of a cluster, and what would
// be applied.
func (s *Service) proposed(ctx context.Context, req admin.EntryDeployRequest) (mesh.KubeCluster, mesh.EntryRelease, []kube.Object, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return c, mesh.EntryRelease{}, nil, err
	}
	st, err := s.Store.KubeStates.Get(ctx, c.ID)
	if ignoreAbsent(err) != nil {
		return c, mesh.EntryRelease{}, nil, err
	}
	layer := req.Layer.WithDefaults()
	if err := cmp.Or(layer.Validate(), layer.After(c.Wanted.Layer)); err != nil {
		return c, mesh.EntryRelease{}, nil, err
	}
	if err := deployable(c, req.Base); err != nil {
		return c, mesh.EntryRelease{}, nil, err
	}
	s.release(ctx, &c, st.Value, layer, cmp.Or(req.Why, "deploy"))
	objects, err := s.Kubes.Render(ctx, c, c.Wanted)
	return c, c.Wanted, objects, err
}

// deployable refuses a release that was made from what is not wanted any more.
func deployable(c mesh.KubeCluster, base int64) error {
	switch {
	case c.Removing:
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: its entries are being taken away: %w", c.Name, mesh.ErrConflict),
			"wait until that is done: meshctl admin entry status "+c.Name)
	case base != c.Wanted.Number:
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: somebody made release %d meanwhile: %w", c.Name, c.Wanted.Number, mesh.ErrConflict),
			"look at it, then try again: meshctl admin kube show "+c.Name)
	}
	return nil
}

// release makes layer what is wanted.
func (s *Service) release(ctx context.Context, c *mesh.KubeCluster, st mesh.KubeState, layer mesh.EntryLayer, why string) {
	number := max(c.Wanted.Number, st.Ran, st.Parked)
	for _, r := range c.Earlier {
		number = max(number, r.Number)
	}
	if c.Wanted.Number != 0 {
		c.Earlier = append(slices.Clone(c.Earlier), c.Wanted)
	}
	c.Earlier = kept(c.Earlier, st.Ran)
	// Pods of a release that failed begin anew: as long as they are the same ones,
	// Kubernetes goes on saying that they made no progress.
	worked := slices.DeleteFunc(slices.Clone(c.Earlier), func(r mesh.EntryRelease) bool { return r.Number == st.Parked })
	c.Wanted = mesh.EntryRelease{Number: number + 1, Layer: layer, Pods: kube.Pods(number+1, layer, worked), Made: s.now(), By: admin.CallerFrom(ctx).Actor, Why: why}
}

// kept are the last releases, and among them always the one that ran: that is what a
// release that fails is put back to, however many have failed since.
func kept(all []mesh.EntryRelease, ran int64) []mesh.EntryRelease {
	for len(all) > mesh.MaxReleases {
		oldest := 0
		if all[0].Number == ran {
			oldest = 1
		}
		all = slices.Delete(all, oldest, oldest+1)
	}
	return all
}

// entryRender is rendered here, without the cluster.
func (s *Service) entryRender(ctx context.Context, req admin.EntryDeployRequest) (admin.KubeManifest, error) {
	_, _, objects, err := s.proposed(ctx, req)
	return manifest(objects, err)
}

func (s *Service) entryPlan(ctx context.Context, req admin.EntryDeployRequest) (admin.EntryPlan, error) {
	c, r, objects, err := s.proposed(ctx, req)
	if err != nil {
		return admin.EntryPlan{}, err
	}
	answer, err := s.askKube(ctx, c, kube.AskPlan, objects)
	if err == nil {
		err = badAnswer(c, answer)
	}
	return admin.EntryPlan{Release: r.Number, Changes: answer.Changes}, err
}
