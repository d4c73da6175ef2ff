package adminsvc

import (
	"cmp"
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// kubeAdd asks the cluster first: a credential that does not do is best found out
// while whoever has it is there.
func (s *Service) kubeAdd(ctx context.Context, req admin.KubeAddRequest) (admin.KubeView, error) {
	c := mesh.KubeCluster{ID: mesh.NewKubeID(), Name: req.Name, Namespace: cmp.Or(req.Namespace, kube.DefaultNamespace), Added: s.now()}
	if err := mesh.CheckKubeName(c.Name); err != nil {
		return admin.KubeView{}, err
	}
	if err := mesh.CheckNamespace(c.Namespace); err != nil {
		return admin.KubeView{}, err
	}
	defer s.Store.Sealing()()
	if err := s.connect(&c, req.KubeConnection); err != nil {
		return admin.KubeView{}, err
	}
	if err := s.goodConnection(ctx, c, req.Unchecked); err != nil {
		return admin.KubeView{}, err
	}
	err := s.change(ctx, "kube.add", func(tx *store.Tx) error {
		if err := s.taken(tx, c); err != nil {
			return err
		}
		return store.Create(tx, s.Store.Kubes, c.ID, c)
	})
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeView(ctx, c)
}

func (s *Service) kubeSet(ctx context.Context, req admin.KubeSetRequest) (admin.KubeView, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.KubeView{}, err
	}
	if req.Name != nil {
		if err := mesh.CheckKubeName(*req.Name); err != nil {
			return admin.KubeView{}, err
		}
	}
	defer s.Store.Sealing()()
	if req.Connection != nil {
		if err := s.connect(&c, *req.Connection); err != nil {
			return admin.KubeView{}, err
		}
		if err := s.goodConnection(ctx, c, req.Unchecked); err != nil {
			return admin.KubeView{}, err
		}
	}
	err = s.change(ctx, "kube.set", func(tx *store.Tx) error {
		if err := s.taken(tx, c); err != nil {
			return err
		}
		return store.Update(tx, s.Store.Kubes, c.ID, func(old *mesh.KubeCluster) error {
			if req.Connection != nil {
				old.Server, old.CA, old.ServerName, old.Auth, old.Credential, old.Ends = c.Server, c.CA, c.ServerName, c.Auth, c.Credential, c.Ends
			}
			set(&old.Name, req.Name)
			c = *old
			return nil
		})
	})
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeView(ctx, c)
}

func (s *Service) goodConnection(ctx context.Context, c mesh.KubeCluster, unchecked bool) error {
	if unchecked {
		return nil
	}
	answer, err := s.askKube(ctx, c, kube.AskCheck, nil)
	if err != nil {
		return err
	}
	return badAnswer(c, answer)
}

func (s *Service) kubeCheck(ctx context.Context, req admin.Ref) (admin.KubeChecked, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.KubeChecked{}, err
	}
	answer, err := s.askKube(ctx, c, kube.AskCheck, nil)
	return admin.KubeChecked{Answer: answer}, err
}
