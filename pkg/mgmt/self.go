package mgmt

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// self is this server's own identity. It needs nobody to renew it: the server
// issues with its own intermediate, and the serial goes on record like any.
type self struct {
	id     mesh.Identity
	folder *identity.Folder
	node   *identity.Node // set by ensure
	ca     issuer
	store  *store.Store
	log    *slog.Logger
	now    func() time.Time
}

// ensure loads the identity, and issues it when there is none, it is due, or
// another server issued it, which may be removed one day. A certificate that still holds is good enough when issuing fails.
func (s *self) ensure(ctx context.Context) error {
	node, err := s.folder.Load()
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		s.node, err = s.issue(ctx, "")
		return err
	case err != nil:
		return setup(err)
	case node.Identity() != s.id:
		return setupf("restore the data folder from one backup, not from several",
			"the certificate in %s is of %s, but this server is %s", dirNode, node.Identity().Node(), s.id.Node())
	}
	s.node = node
	if s.now().Before(due(node.Leaf(), 0)) && mesh.IssuerOf(node.Leaf()) == mesh.ServerID(s.id.ID) {
		return nil
	}
	err = s.renew(ctx)
	if err != nil && s.now().Before(node.Leaf().NotAfter) {
		s.log.Warn("own certificate not renewed", "err", err, "ends", node.Leaf().NotAfter)
		return nil
	}
	return err
}

// run renews from two thirds of the certificate's life on.
func (s *self) run(ctx context.Context) error {
	at := due(s.node.Leaf(), rand.Float64())
	for {
		t := time.NewTimer(at.Sub(s.now()))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		if err := s.renew(ctx); err != nil {
			s.log.Warn("own certificate not renewed", "err", err, "ends", s.node.Leaf().NotAfter)
			at = s.now().Add(retryAfter(s.node.Leaf()))
			continue
		}
		at = due(s.node.Leaf(), rand.Float64())
	}
}

func (s *self) renew(ctx context.Context) error {
	// Only what is on record can be named as replaced: state that was restored
	// from a backup may not know the certificate.
	old := s.node.Leaf().SerialNumber.String()
	if _, err := s.store.GetCert(ctx, old); err != nil {
		if !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		old = ""
	}
	next, err := s.issue(ctx, old)
	if err != nil {
		return err
	}
	s.node.Replace(next)
	s.log.Info("own certificate renewed", "ends", next.Leaf().NotAfter)
	return nil
}

func (s *self) issue(ctx context.Context, replaces string) (*identity.Node, error) {
	cfg, err := s.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return nil, fmt.Errorf("mgmt: issue own certificate: %w", err)
	}
	p, err := s.folder.NewRequest()
	if err != nil {
		return nil, setup(err)
	}
	chain, _, err := s.ca.Issue(ctx, ca.Request{Identity: s.id, CSR: p.CSR(), Life: cfg.Value.CertLife.Of(mesh.RoleMgmt), Replaces: replaces})
	if err != nil {
		return nil, fmt.Errorf("mgmt: issue own certificate: %w", err)
	}
	node, err := s.folder.Commit(p, chain)
	if err != nil {
		return nil, setup(err)
	}
	return node, nil
}

// due is when a certificate is renewed: after two thirds of its life, and up to
// a sixth of it later, as jitter says between 0 and 1.
func due(leaf *x509.Certificate, jitter float64) time.Time {
	issued := leaf.NotBefore.Add(mesh.Backdate)
	life := leaf.NotAfter.Sub(issued)
	return issued.Add(life * 2 / 3).Add(time.Duration(jitter * float64(life) / 6))
}

// retryAfter is how long to wait after a failure: a fiftieth of the life, from
// a second to five minutes.
func retryAfter(leaf *x509.Certificate) time.Duration {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(mesh.Backdate))
	return min(max(life/50, time.Second), 5*time.Minute)
}
