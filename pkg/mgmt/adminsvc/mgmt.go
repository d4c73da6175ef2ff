package adminsvc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) mgmtList(ctx context.Context, _ admin.Page) (admin.List[admin.ServerLine], error) {
	lines, err := s.Servers.Lines(ctx)
	return admin.List[admin.ServerLine]{Items: lines}, err
}

// mgmtAdd checks the passphrase before anything else, so that nobody waits in
// vain, and makes the token.
func (s *Service) mgmtAdd(ctx context.Context, req admin.MgmtAddRequest) (admin.MgmtAdded, error) {
	if err := mesh.CheckName(req.Name); err != nil {
		return admin.MgmtAdded{}, err
	}
	if req.Life == 0 {
		req.Life = mesh.Duration(defaultTokenLife)
	}
	if life := time.Duration(req.Life); life < minTokenLife || life > maxTokenLife {
		return admin.MgmtAdded{}, fmt.Errorf("admin: add server: life %v: want 1s to 720h: %w", life, mesh.ErrInvalid)
	}
	if _, err := s.Servers.OpenRoot(mesh.Secret(req.Passphrase)); err != nil {
		return admin.MgmtAdded{}, err
	}
	cfg, err := s.configGet(ctx, admin.None{})
	if err != nil {
		return admin.MgmtAdded{}, err
	}
	now, secret := s.now(), mesh.NewSecret(tokenSecret)
	t := mesh.Token{
		ID: mesh.NewTokenID(), Hash: mesh.HashTokenSecret(secret), Role: mesh.RoleMgmt, Name: req.Name,
		Created: now, By: string(admin.CallerFrom(ctx).Actor), Expires: now.Add(time.Duration(req.Life)),
	}
	err = s.change(ctx, "server.add", func(tx *store.Tx) error {
		have, err := store.Lookup(tx, s.Store.Servers, req.Name)
		switch {
		case err == nil && have.State == mesh.ServerJoining:
			return errComing
		case err == nil:
			return mesh.WithHint(fmt.Errorf("admin: add server: the name %q is taken: %w", have.Name, mesh.ErrExists),
				"choose another; to replace that server, remove it first: meshctl admin mgmt remove "+string(have.ID))
		case !errors.Is(err, mesh.ErrNotFound):
			return err
		}
		return store.Create(tx, s.Store.Tokens, t.ID, t)
	})
	if errors.Is(err, errComing) {
		return admin.MgmtAdded{}, nil
	}
	if err != nil {
		return admin.MgmtAdded{}, err
	}
	join := mesh.JoinToken{Addresses: cfg.MgmtAddresses, RootHash: s.RootHash, ID: t.ID, Secret: secret}
	return admin.MgmtAdded{Token: join.Encode().Reveal(), Expires: t.Expires}, nil
}

// errComing leaves a transaction: a server of that name is on its way.
var errComing = errors.New("a server of that name is on its way")

// mgmtSign signs the intermediate of the server of that name once it has come,
// and says how far it is.
func (s *Service) mgmtSign(ctx context.Context, req admin.MgmtSignRequest) (admin.MgmtProgress, error) {
	lines, err := s.Servers.Lines(ctx)
	if err != nil {
		return admin.MgmtProgress{}, err
	}
	i := slices.IndexFunc(lines, func(l admin.ServerLine) bool { return l.Name == req.Name && l.State != mesh.ServerRemoved })
	if i < 0 {
		return admin.MgmtProgress{Waiting: "for the server to come with its token"}, nil
	}
	line := lines[i]
	if line.State == mesh.ServerMember {
		return admin.MgmtProgress{Server: &line}, nil
	}
	var key []byte
	signed := false
	_, err = s.Store.View(ctx, func(tx *store.Tx) (err error) {
		if key, err = s.Servers.Requested(tx, line.ID); err != nil {
			return err
		}
		signed, err = s.Servers.Signed(tx, line.ID)
		return err
	})
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return admin.MgmtProgress{Waiting: "for the server to ask for its intermediate", Server: &line}, nil
	case err != nil:
		return admin.MgmtProgress{}, err
	case !signed:
		if err := s.signServer(ctx, line.ID, key, mesh.Secret(req.Passphrase)); err != nil {
			return admin.MgmtProgress{}, err
		}
	}
	return admin.MgmtProgress{Waiting: "for its etcd to catch up", Server: &line}, nil
}

func (s *Service) signServer(ctx context.Context, id mesh.ServerID, key []byte, passphrase mesh.Secret) error {
	pub, err := x509.ParsePKIXPublicKey(key)
	if err != nil {
		return fmt.Errorf("admin: sign for server %s: its key is not readable: %w", id, mesh.ErrInvalid)
	}
	root, err := s.Servers.OpenRoot(passphrase)
	if err != nil {
		return err
	}
	cert, err := root.Intermediate(id, pub, s.now())
	if err != nil {
		return err
	}
	return s.change(ctx, "server.sign", func(tx *store.Tx) error {
		if signed, err := s.Servers.Signed(tx, id); err != nil || signed {
			return err
		}
		return s.Servers.Sign(tx, id, ca.MarshalCert(cert))
	})
}

// mgmtRemove takes a server out of etcd first: from then on it decides nothing.
func (s *Service) mgmtRemove(ctx context.Context, req admin.RevokeRequest) (admin.ServerLine, error) {
	v, err := s.Store.Servers.Lookup(ctx, req.Ref)
	switch {
	case err != nil:
		return admin.ServerLine{}, err
	case v.State == mesh.ServerRemoved:
		return admin.ServerLine{}, fmt.Errorf("admin: server %s was removed already: %w", v.ID, mesh.ErrConflict)
	case v.ID == s.Server:
		return admin.ServerLine{}, mesh.WithHint(fmt.Errorf("admin: remove server %s: a server does not remove itself: %w", v.Name, mesh.ErrConflict),
			"ask another one; the last server of a mesh cannot be removed")
	}
	if err := s.Servers.Remove(ctx, v); err != nil {
		return admin.ServerLine{}, mesh.WithHint(fmt.Errorf("admin: remove server %s: without it too few servers would be left that answer, and nothing could be changed any more: %w: %w", v.Name, mesh.ErrConflict, err),
			"see `meshctl admin mgmt list`: bring back who is away first, or let another server in")
	}
	defer s.Store.Sealing()()
	err = s.change(ctx, "server.remove", func(tx *store.Tx) error {
		if v, err = s.takeOut(ctx, tx, v.ID, req); err != nil {
			return err
		}
		return s.Servers.NewGossipKey(tx)
	})
	return admin.ServerLine{Server: v}, err
}

// RemoveLost takes servers off the record whose etcd is out already, in one
// change, for a server that is made a mesh of its own.
func (s *Service) RemoveLost(ctx context.Context, lost []mesh.ServerID, reason string) error {
	defer s.Store.Sealing()()
	return s.change(ctx, "mesh.recover", func(tx *store.Tx) error {
		for _, id := range lost {
			if _, err := s.takeOut(ctx, tx, id, admin.RevokeRequest{Reason: reason}); err != nil {
				return err
			}
		}
		return s.Servers.NewGossipKey(tx)
	})
}

// takeOut is a removal but for etcd and the key of gossip: the record, what nodes
// are told, the certificates.
func (s *Service) takeOut(ctx context.Context, tx *store.Tx, id mesh.ServerID, req admin.RevokeRequest) (v mesh.Server, err error) {
	err = store.Update(tx, s.Store.Servers, id, func(x *mesh.Server) error {
		x.State = mesh.ServerRemoved
		v = *x
		return nil
	})
	if err != nil {
		return v, err
	}
	err = store.Update(tx, s.Store.Config, store.ConfigKey, func(c *mesh.Config) error {
		left := slices.DeleteFunc(slices.Clone(c.MgmtAddresses), func(a string) bool { return slices.Contains(v.Addresses, a) })
		if len(left) > 0 {
			c.MgmtAddresses = left
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	if err := s.revokeNode(ctx, tx, nodeName(mesh.RoleMgmt, v.ID), req); err != nil {
		return v, err
	}
	return v, tx.Event(mesh.Event{
		Type: mesh.EventServerRemoved, Severity: mesh.Warning, Object: "server/" + string(v.ID),
		Cause: fmt.Sprintf("management server %q was removed", v.Name),
	})
}

// mgmtMoveLeader hands leadership to the named server, or to any that is there.
func (s *Service) mgmtMoveLeader(ctx context.Context, req admin.Ref) (admin.None, error) {
	lines, err := s.Servers.Lines(ctx)
	if err != nil {
		return admin.None{}, err
	}
	for _, l := range lines {
		named := req.Ref == l.Name || req.Ref == string(l.ID)
		if !l.Votes || l.State == mesh.ServerRemoved || !named && (req.Ref != "" || l.Leader || !l.Here) {
			continue
		}
		return admin.None{}, s.Servers.MoveLeader(ctx, l.Member)
	}
	if req.Ref != "" {
		return admin.None{}, fmt.Errorf("admin: move leader: server %q is not one that votes: %w", mesh.Quotable(req.Ref), mesh.ErrNotFound)
	}
	return admin.None{}, fmt.Errorf("admin: move leader: no other server is there: %w", mesh.ErrConflict)
}

// secretsRekey takes the next step of replacing the data key.
func (s *Service) secretsRekey(ctx context.Context, _ admin.None) (admin.RekeyProgress, error) {
	c := admin.CallerFrom(ctx)
	return s.Servers.Rekey(ctx, store.By{Actor: c.Actor, Request: c.Request})
}
