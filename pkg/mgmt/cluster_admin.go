package mgmt

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// serversOf is what administrators can do with the servers.
type serversOf struct{ *cluster }

// Lines implements adminsvc.Servers.
func (s serversOf) Lines(ctx context.Context) ([]admin.ServerLine, error) {
	if _, err := s.servers(ctx); err != nil {
		return nil, err
	}
	return s.lines(), nil
}

// Remove implements adminsvc.Servers. A server that never got its vote is found
// by its address.
func (s serversOf) Remove(ctx context.Context, v mesh.Server) error {
	peers, err := s.r.etcd.member.Peers()
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.ID == v.Member || v.Member == "" && v.Peer != "" && p.URL == v.Peer {
			return s.r.etcd.member.Remove(ctx, p.ID)
		}
	}
	return nil
}

// MoveLeader implements adminsvc.Servers.
func (s serversOf) MoveLeader(ctx context.Context, member string) error {
	return s.moveLeader(ctx, member)
}

// OpenRoot implements adminsvc.Servers.
func (s serversOf) OpenRoot(passphrase mesh.Secret) (*ca.Root, error) {
	root, err := ca.OpenRoot(s.r.keys.rootSealed, s.r.keys.root, []byte(passphrase.Reveal()))
	if err != nil {
		return nil, mesh.WithHint(fmt.Errorf("mgmt: %w", err), "it takes the passphrase that the mesh was founded with")
	}
	return root, nil
}

// Requested implements adminsvc.Servers.
func (s serversOf) Requested(tx *store.Tx, id mesh.ServerID) ([]byte, error) {
	b, err := store.Get(tx, s.r.store.CA, blobRequest(id))
	return b.Data, err
}

// Signed implements adminsvc.Servers.
func (s serversOf) Signed(tx *store.Tx, id mesh.ServerID) (bool, error) {
	_, err := store.Get(tx, s.r.store.CA, blobIssuer(id))
	if errors.Is(err, mesh.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Sign implements adminsvc.Servers.
func (s serversOf) Sign(tx *store.Tx, id mesh.ServerID, intermediate []byte) error {
	return store.Create(tx, s.r.store.CA, blobIssuer(id), store.Blob{Data: intermediate, Created: s.r.now().UTC()})
}

// NewGossipKey implements adminsvc.Servers.
func (s serversOf) NewGossipKey(tx *store.Tx) error { return s.newGossipKey(tx) }
