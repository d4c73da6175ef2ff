package mgmt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Names of what the store keeps of the CA, so that a backup of etcd holds it.
const (
	blobRoot       = "root.crt"
	blobRootSealed = "root.sealed"
)

func blobIssuer(s mesh.ServerID) string { return "issuer." + string(s) }

// settle makes sure that etcd holds the mesh of this folder. It writes only
// while founding: a server whose etcd takes no writes resumes all the same.
func settle(ctx context.Context, st *store.Store, f *folder, k *keys, first mesh.Config, log *slog.Logger) error {
	founded, err := f.has(fileFounded)
	if err != nil {
		return err
	}
	if !founded {
		if first.EpochProof, _, err = f.knownEpoch(k); err != nil {
			return err
		}
		if err := plant(ctx, st, k, first); err != nil {
			return fmt.Errorf("mgmt: found: %w", err)
		}
	} else if err := f.read(fileFounded, new(foundedFile).parse); err != nil {
		return err
	}
	if err := recognise(ctx, st, k); err != nil {
		return err
	}
	return f.checkEpoch(ctx, st, k, log)
}

// plant writes the first state of a mesh, all at once, unless it is there.
func plant(ctx context.Context, st *store.Store, k *keys, first mesh.Config) error {
	_, err := st.Change(ctx, store.By{Actor: "system:founding"}, "mesh.found", func(tx *store.Tx) error {
		_, err := store.Get(tx, st.Config, store.ConfigKey)
		if !errors.Is(err, mesh.ErrNotFound) {
			return err // it is there, or it cannot be read
		}
		if err := store.Create(tx, st.Config, store.ConfigKey, first); err != nil {
			return err
		}
		for _, b := range []struct {
			name string
			data []byte
		}{
			{blobRoot, ca.MarshalCert(k.root)},
			{blobRootSealed, k.rootSealed},
			{blobIssuer(k.Server), ca.MarshalCert(k.intermediate)},
		} {
			if err := store.Create(tx, st.CA, b.name, store.Blob{Data: b.data, Created: k.Made}); err != nil {
				return err
			}
		}
		return plantOthers(tx, st, k)
	})
	return err
}

// plantOthers writes down who founded the mesh together with this server, and
// that they may come with the bootstrap secret.
func plantOthers(tx *store.Tx, st *store.Store, k *keys) error {
	if k.forming == nil || len(k.forming.Others) == 0 {
		return nil
	}
	for _, o := range k.forming.Others {
		if err := store.Create(tx, st.Servers, o.Server.ID, o.Server); err != nil {
			return err
		}
		if err := store.Create(tx, st.CA, blobIssuer(o.Server.ID), store.Blob{Data: o.Intermediate, Created: k.Made}); err != nil {
			return err
		}
	}
	return store.Create(tx, st.CA, blobFounding, store.Blob{Data: []byte(k.forming.Server), Created: k.Made})
}

// recognise refuses an etcd that holds no mesh, or another than the keys are of.
func recognise(ctx context.Context, st *store.Store, k *keys) error {
	b, err := st.CA.Get(ctx, blobRoot)
	const hint = "restore the whole data folder from one backup, never etcd and keys from different ones"
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return setupf(hint, "etcd holds no mesh, but this server belongs to %s", k.Mesh)
	case err != nil:
		return fmt.Errorf("mgmt: resume: %w", err)
	case !bytes.Equal(b.Value.Data, ca.MarshalCert(k.root)):
		return setupf(hint, "etcd holds another mesh than %s, of which the keys are", k.Mesh)
	}
	return nil
}

// markFounded is the last step of founding.
func (f *folder) markFounded(now time.Time) error {
	if founded, err := f.has(fileFounded); err != nil || founded {
		return err
	}
	return f.writeJSON(fileFounded, foundedFile{At: now.UTC()})
}
