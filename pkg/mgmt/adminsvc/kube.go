package adminsvc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxKubes bounds how many clusters there are.
const maxKubes = 50

// Kubes is what the handlers need of the clusters that entries run in.
type Kubes interface {
	// Render makes the objects of a release, by what holds now: the addresses of
	// servers and cores, and the releases before it.
	Render(ctx context.Context, c mesh.KubeCluster, r mesh.EntryRelease) ([]kube.Object, error)
	// AskKube asks a cluster through the child of this server, whoever leads. That
	// the cluster gave no good answer is no error.
	AskKube(ctx context.Context, a kube.Ask) (kube.Answer, error)
}

func (s *Service) kubeBindings() []admin.Binding {
	return []admin.Binding{
		admin.KubeList.Handle(s.kubeList),
		admin.KubeGet.Handle(s.kubeGet),
		admin.KubeLook.Handle(s.kubeLook),
		admin.KubeRBACOf.Handle(s.kubeRBAC),
		admin.KubeAdd.Handle(s.kubeAdd),
		admin.KubeSet.Handle(s.kubeSet),
		admin.KubeRemove.Handle(s.kubeRemove),
		admin.KubeCheck.Handle(s.kubeCheck),

		admin.EntryDeploy.Handle(s.entryDeploy),
		admin.EntryRender.Handle(s.entryRender),
		admin.EntryPlanOf.Handle(s.entryPlan),
		admin.EntryRollout.Handle(s.entryRollout),
		admin.EntryUninstall.Handle(s.entryUninstall),
		admin.DNSRecordsOf.Handle(s.dnsRecordsOf),
	}
}

func (s *Service) kubeList(ctx context.Context, req admin.Page) (admin.List[admin.KubeView], error) {
	show, err := s.kubeViewer(ctx)
	if err != nil {
		return admin.List[admin.KubeView]{}, err
	}
	return list(ctx, req, s.Store.Kubes.Page, func(_ string, c mesh.KubeCluster) (admin.KubeView, bool) { return show(c), true })
}

func (s *Service) kubeGet(ctx context.Context, req admin.Ref) (admin.KubeView, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeView(ctx, c)
}

// kubeLook is asked for twice a second by everybody who waits for something.
func (s *Service) kubeLook(ctx context.Context, req admin.Ref) (admin.KubeView, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.KubeView{}, err
	}
	v := viewOf(c)
	st, err := s.Store.KubeStates.Get(ctx, c.ID)
	if err == nil {
		v.State = &st.Value
	}
	return v, ignoreAbsent(err)
}

// viewOf is a cluster without what was seen of it.
func viewOf(c mesh.KubeCluster) admin.KubeView {
	return admin.KubeView{
		ID: c.ID, Name: c.Name, Server: c.Server, ServerName: c.ServerName, Auth: c.Auth, Ends: c.Ends, Namespace: c.Namespace,
		NamespaceUID: c.NamespaceUID, Added: c.Added, Wanted: c.Wanted, Earlier: c.Earlier, Paused: c.Paused, Removing: c.Removing,
	}
}

func (s *Service) kubeView(ctx context.Context, c mesh.KubeCluster) (admin.KubeView, error) {
	show, err := s.kubeViewer(ctx)
	if err != nil {
		return admin.KubeView{}, err
	}
	return show(c), nil
}

// kubeViewer reads once what the views of all clusters need.
func (s *Service) kubeViewer(ctx context.Context) (func(mesh.KubeCluster) admin.KubeView, error) {
	states, _, err := s.Store.KubeStates.List(ctx)
	if err != nil {
		return nil, err
	}
	entries, _, err := s.Store.Entries.List(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	pods := map[mesh.KubeID]map[string]admin.EntryView{}
	for _, e := range entries {
		if e.Pod.Cluster == "" {
			continue
		}
		if pods[e.Pod.Cluster] == nil {
			pods[e.Pod.Cluster] = map[string]admin.EntryView{}
		}
		pods[e.Pod.Cluster][e.Pod.UID] = known.entry(e)
	}
	return func(c mesh.KubeCluster) admin.KubeView {
		v := viewOf(c)
		v.Entries = pods[c.ID]
		if st, ok := states[c.ID]; ok {
			v.State = &st
		}
		return v
	}, nil
}

func (s *Service) kubeRBAC(_ context.Context, req admin.KubeRBACRequest) (admin.KubeManifest, error) {
	return manifest(kube.RBAC(cmp.Or(req.Namespace, kube.DefaultNamespace)))
}

// manifest writes objects as YAML.
func manifest(objects []kube.Object, err error) (admin.KubeManifest, error) {
	if err != nil {
		return admin.KubeManifest{}, err
	}
	yaml, err := kube.YAML(objects)
	return admin.KubeManifest{YAML: yaml}, err
}

// kubeChange changes a cluster, which fn is shown beside how it is.
func (s *Service) kubeChange(ctx context.Context, action, ref string, fn func(*mesh.KubeCluster, mesh.KubeState) error) (admin.KubeView, error) {
	var out mesh.KubeCluster
	err := s.change(ctx, action, func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Kubes, ref)
		if err != nil {
			return err
		}
		st, err := store.Get(tx, s.Store.KubeStates, c.ID)
		if ignoreAbsent(err) != nil {
			return err
		}
		return store.Update(tx, s.Store.Kubes, c.ID, func(c *mesh.KubeCluster) error {
			err := fn(c, st)
			out = *c
			return err
		})
	})
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeView(ctx, out)
}

// kubeRemove forgets a cluster in which nothing runs any more, or that is given up.
func (s *Service) kubeRemove(ctx context.Context, req admin.KubeRemoveRequest) (admin.None, error) {
	return admin.None{}, s.change(ctx, "kube.remove", func(tx *store.Tx) error {
		c, err := store.Lookup(tx, s.Store.Kubes, req.Ref)
		if err != nil {
			return err
		}
		if c.Wanted.Number != 0 && !req.Abandon {
			return mesh.WithHint(fmt.Errorf("admin: cluster %s: entries are deployed there: %w", c.Name, mesh.ErrConflict),
				"take them away first: meshctl admin entry uninstall "+c.Name+"; or leave what is there as it is with --abandon")
		}
		if err := drop(tx, s.Store.KubeStates, c.ID); err != nil {
			return err
		}
		return store.Delete(tx, s.Store.Kubes, c.ID)
	})
}

// taken refuses a namespace that another cluster of the mesh is about already: two
// that keep the same objects would undo each other's changes for ever.
func (s *Service) taken(tx *store.Tx, c mesh.KubeCluster) error {
	all, err := store.List(tx, s.Store.Kubes)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Collect(maps.Values(all)), func(o mesh.KubeCluster) bool { return o.ID == c.ID })
	if len(others) >= maxKubes {
		return fmt.Errorf("admin: cluster %s: there are %d already, the most there may be: %w", c.Name, len(others), mesh.ErrInvalid)
	}
	for _, o := range others {
		one := c.NamespaceUID != "" && o.NamespaceUID == c.NamespaceUID // whatever URLs lead to it
		if one || o.Server == c.Server && o.Namespace == c.Namespace {
			err := fmt.Errorf("admin: cluster %s: namespace %s of %s is that of cluster %s: %w", c.Name, c.Namespace, c.Server, o.Name, mesh.ErrExists)
			return mesh.WithHint(err, fmt.Sprintf("to change how it is reached: meshctl admin kube set %s --kubeconfig FILE; to have more entries there, another --namespace", o.Name))
		}
	}
	return nil
}
