package adminsvc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	answer, err := s.goodConnection(ctx, c, req.Unchecked)
	if err != nil {
		return admin.KubeView{}, err
	}
	c.NamespaceUID = answer.NamespaceUID
	err = s.change(ctx, "kube.add", func(tx *store.Tx) error {
		if err := s.taken(tx, c); err != nil {
			return err
		}
		if err := store.Create(tx, s.Store.Kubes, c.ID, c); err != nil || req.Unchecked {
			return err
		}
		return s.looked(tx, c, answer)
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
	var answer kube.Answer
	if req.Connection != nil {
		if err := s.connect(&c, *req.Connection); err != nil {
			return admin.KubeView{}, err
		}
		if answer, err = s.goodConnection(ctx, c, req.Unchecked); err != nil {
			return admin.KubeView{}, err
		}
	} else if req.Moved {
		return admin.KubeView{}, fmt.Errorf("admin: cluster %s: moved is about a connection, and there is none: %w", c.Name, mesh.ErrInvalid)
	}
	err = s.change(ctx, "kube.set", func(tx *store.Tx) error {
		now, err := store.Get(tx, s.Store.Kubes, c.ID)
		if err != nil {
			return err
		}
		if req.Connection != nil {
			if err := s.led(tx, now, answer, req.Moved); err != nil {
				return err
			}
			now.Server, now.CA, now.ServerName, now.Auth, now.Credential, now.Ends = c.Server, c.CA, c.ServerName, c.Auth, c.Credential, c.Ends
			if answer.NamespaceUID != "" || req.Moved { // otherwise nobody has looked yet
				now.NamespaceUID = answer.NamespaceUID
			}
		}
		set(&now.Name, req.Name)
		if err := s.taken(tx, now); err != nil {
			return err
		}
		return store.Update(tx, s.Store.Kubes, c.ID, func(old *mesh.KubeCluster) error {
			*old, c = now, now
			return nil
		})
	})
	if err != nil {
		return admin.KubeView{}, err
	}
	return s.kubeView(ctx, c)
}

// led refuses a connection that leads to another namespace than before while entries
// are deployed there, unless that has moved: what was seen of the old one is forgotten
// then.
func (s *Service) led(tx *store.Tx, c mesh.KubeCluster, a kube.Answer, moved bool) error {
	other := a.NamespaceUID != "" && c.NamespaceUID != "" && a.NamespaceUID != c.NamespaceUID
	switch {
	case other && c.Wanted.Number != 0 && !moved:
		return mesh.WithHint(fmt.Errorf("admin: cluster %s: this leads to another cluster, or to another namespace %s, than the one that entries are deployed in: %w",
			c.Name, c.Namespace, mesh.ErrConflict),
			fmt.Sprintf("take the entries away first: meshctl admin entry uninstall %s; or, when the old cluster or its namespace is gone: --moved", c.Name))
	case other || moved:
		return s.unseen(tx, c)
	}
	return nil
}

// unseen forgets what was seen of a cluster, but not that the release that is wanted has
// failed: what ran before it is to serve wherever the cluster is now.
func (s *Service) unseen(tx *store.Tx, c mesh.KubeCluster) error {
	st, err := store.Get(tx, s.Store.KubeStates, c.ID)
	if ignoreAbsent(err) != nil {
		return err
	}
	if c.Wanted.Number == 0 || st.Parked != c.Wanted.Number {
		return drop(tx, s.Store.KubeStates, c.ID)
	}
	return store.Update(tx, s.Store.KubeStates, c.ID, func(st *mesh.KubeState) error {
		*st = mesh.KubeState{Cluster: c.ID, Ran: st.Ran, Parked: st.Parked, ParkedWhy: st.ParkedWhy}
		return nil
	})
}

// looked keeps when a cluster was looked at in which nothing runs: nobody else looks
// at it often.
func (s *Service) looked(tx *store.Tx, c mesh.KubeCluster, a kube.Answer) error {
	st, err := store.Get(tx, s.Store.KubeStates, c.ID)
	switch now := s.now(); {
	case errors.Is(err, mesh.ErrNotFound):
		return store.Create(tx, s.Store.KubeStates, c.ID, mesh.KubeState{
			Cluster: c.ID, Since: now, Seen: now, Version: a.Version, Rollout: mesh.KubeRollout{Phase: mesh.KubeIdle, Since: now},
		})
	case err != nil || c.Wanted.Number != 0 || st.Rollout.Phase != mesh.KubeIdle:
		return err
	default:
		return store.Update(tx, s.Store.KubeStates, c.ID, func(st *mesh.KubeState) error {
			st.Seen, st.Version = now, a.Version
			return nil
		})
	}
}

func (s *Service) goodConnection(ctx context.Context, c mesh.KubeCluster, unchecked bool) (kube.Answer, error) {
	if unchecked {
		return kube.Answer{}, nil
	}
	answer, err := s.askKube(ctx, c, kube.AskCheck, nil)
	if err != nil {
		return answer, err
	}
	return answer, badAnswer(c, answer)
}

func (s *Service) kubeCheck(ctx context.Context, req admin.Ref) (admin.KubeChecked, error) {
	c, err := s.Store.Kubes.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.KubeChecked{}, err
	}
	answer, err := s.askKube(ctx, c, kube.AskCheck, nil)
	if err != nil || answer.Failure != kube.NoFailure || c.Wanted.Number != 0 {
		return admin.KubeChecked{Answer: answer}, err
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error { return s.looked(tx, c, answer) })
	return admin.KubeChecked{Answer: answer}, err
}
