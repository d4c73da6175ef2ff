package mgmt

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The epoch of the mesh is what its root signed last. A server keeps the latest
// that it has seen beside etcd, so that an older copy of etcd's data shows:
//
//	founding, restore  ─▶ the root's word, in the state
//	start              ─▶ the state's is the latest: kept in epoch.json
//	                      the state's is older: the server does not serve
//	a node knows later ─▶ kept in epoch.json, and the server stops serving

// epochFile is the root's word as the folder keeps it.
type epochFile struct {
	mesh.SignedEpoch
}

func (x *epochFile) parse(b []byte) error {
	if err := json.Unmarshal(b, x); err != nil {
		return err
	}
	if x.IsZero() {
		return errors.New("it names no epoch")
	}
	return nil
}

// firstEpoch is what founding leaves in the folder for the state.
func firstEpoch(root *ca.Root, now time.Time) ([]byte, error) {
	signed, err := root.SignEpoch(1, now)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(epochFile{signed}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("mgmt: write %s: %w", fileEpoch, err)
	}
	return append(b, '\n'), nil
}

// knownEpoch is the latest that this folder knows of; zero when it knows none.
func (f *folder) knownEpoch(k *keys) (mesh.SignedEpoch, mesh.Epoch, error) {
	has, err := f.has(fileEpoch)
	if err != nil || !has {
		return mesh.SignedEpoch{}, mesh.Epoch{}, err
	}
	var file epochFile
	var said mesh.Epoch
	err = f.read(fileEpoch, func(b []byte) (err error) {
		if err := file.parse(b); err != nil {
			return err
		}
		said, err = identity.VerifyEpoch(k.roots(), k.Mesh, file.SignedEpoch)
		return err
	})
	return file.SignedEpoch, said, err
}

// keepEpoch writes down an epoch that is later than what the folder knows.
func (f *folder) keepEpoch(k *keys, signed mesh.SignedEpoch) error {
	_, known, err := f.knownEpoch(k)
	if err != nil {
		return err
	}
	said, err := identity.VerifyEpoch(k.roots(), k.Mesh, signed)
	if err != nil || said.Epoch <= known.Epoch {
		return err
	}
	return f.writeJSON(fileEpoch, epochFile{signed})
}

// checkEpoch refuses state that is older than the epoch this folder knows of,
// and keeps a later one. A number in the state that the root did not sign is
// nobody's word, and is told of.
func (f *folder) checkEpoch(ctx context.Context, st *store.Store, k *keys, log *slog.Logger) error {
	c, err := st.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		return fmt.Errorf("mgmt: resume: %w", err)
	}
	epoch, err := identity.EpochOf(k.roots(), k.Mesh, c.Value)
	if err != nil {
		log.Error("epoch of the state is not the root's", "err", err)
	}
	_, known, err := f.knownEpoch(k)
	switch {
	case err != nil:
		return err
	case epoch < known.Epoch:
		return superseded(known, epoch)
	case c.Value.EpochProof.IsZero():
		return nil
	}
	return f.keepEpoch(k, c.Value.EpochProof)
}

func superseded(known mesh.Epoch, epoch int64) error {
	return setupf("this server belongs to what was before: empty its data folder and let it in anew, meshctl admin mgmt add; its state may be looked at first with its network off",
		"the mesh was restored from a backup as epoch %d on %s, and the state of this server is of epoch %d: %w",
		known.Epoch, known.At.UTC().Format(time.RFC3339), epoch, mesh.ErrConflict)
}

// runEpoch ends the server once it has heard of a later epoch than its own.
func (r *runtime) runEpoch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case signed := <-r.superseded:
		said, err := identity.VerifyEpoch(r.keys.roots(), r.keys.Mesh, signed)
		if err != nil {
			return err
		}
		return errors.Join(superseded(said, r.nodes.Epoch()), r.folder.keepEpoch(r.keys, signed))
	}
}

// hearEpoch takes a later epoch that a node has proven.
func (r *runtime) hearEpoch(signed mesh.SignedEpoch) {
	select {
	case r.superseded <- signed:
	default: // one is enough
	}
}

// intermediates are the servers that are part of the mesh, by the serials of their
// intermediates.
func (r *runtime) intermediates(ctx context.Context) (map[string]mesh.ServerID, error) {
	servers, _, err := r.store.Servers.List(ctx)
	if err != nil {
		return nil, err
	}
	live := map[string]mesh.ServerID{r.keys.intermediate.SerialNumber.String(): r.keys.Server}
	for id, s := range servers {
		if s.State == mesh.ServerRemoved || id == r.keys.Server {
			continue
		}
		b, err := r.store.CA.Get(ctx, blobIssuer(id))
		if errors.Is(err, mesh.ErrNotFound) {
			continue // it is still to be signed
		}
		if err != nil {
			return nil, err
		}
		cert, err := ca.ParseCert(b.Value.Data)
		if err != nil {
			return nil, err
		}
		live[cert.SerialNumber.String()] = id
	}
	return live, nil
}

func (k *keys) roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(k.root)
	return p
}
