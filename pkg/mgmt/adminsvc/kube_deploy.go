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
	if !slices.Contains([]string{"deploy", scale, "image"}, req.Why) {
		return admin.KubeView{}, fmt.Errorf("admin: deploy entries: why %q: want deploy, scale or image: %w", mesh.Quotable(req.Why), mesh.ErrInvalid)
	}
	if _, _, _, err := s.proposed(ctx, req); err != nil {
		return admin.KubeView{}, err
	}
	note := ""
	v, err := s.kubeChange(ctx, "entry."+req.Why, req.Ref, func(c *mesh.KubeCluster, st mesh.KubeState) error {
		note = "" // of an attempt before, when the transaction is made again
		layer, err := layerOf(*c, st, req)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(c.Wanted.Layer, layer) && st.Parked != c.Wanted.Number {
			return nil
		}
		if runs := c.Ordered(st); req.Why == scale && runs.Number != c.Wanted.Number {
			note = fmt.Sprintf("release %d failed and is not tried again; this changes the number of release %d", c.Wanted.Number, runs.Number)
		}
		s.release(ctx, c, st, layer, req.Why)
		return nil
	})
	v.Note = note
	return v, err
}

// scale is why a release was made that changes the number of what runs.
const scale = "scale"

// layerOf is the layer that a request wants in a cluster. The number is that of what
// runs: a release that failed must not come again by it.
func layerOf(c mesh.KubeCluster, st mesh.KubeState, req admin.EntryDeployRequest) (mesh.EntryLayer, error) {
	if err := deployable(c, req.Base); err != nil {
		return mesh.EntryLayer{}, err
	}
	layer := req.Layer
	if req.Why == scale && c.Wanted.Number != 0 {
		layer = c.Ordered(st).Layer
		layer.Replicas = req.Layer.Replicas
	}
	layer = layer.WithDefaults()
	return layer, cmp.Or(layer.Validate(), layer.After(c.Wanted.Layer))
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
	layer, err := layerOf(c, st.Value, req)
	if err != nil {
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
		was := c.Wanted
		was.Failed = was.Number == st.Parked
		c.Earlier = append(slices.Clone(c.Earlier), was)
	}
	c.Earlier = kept(c.Earlier, st.Ran)
	// Pods of a release that failed begin anew: as long as they are the same ones,
	// Kubernetes goes on saying that they made no progress.
	worked := slices.DeleteFunc(slices.Clone(c.Earlier), func(r mesh.EntryRelease) bool { return r.Failed })
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
