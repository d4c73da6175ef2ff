package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// resealBatch is how many values one transaction seals anew.
const resealBatch = 16

// errFresh leaves a transaction that has nothing to do any more.
var errFresh = errors.New("sealed under the key of now already")

// Reseal seals up to limit values anew that are sealed under another key than
// the one that seals now, and returns how many it found: 0 says that all are
// under that key. check runs in every transaction and can refuse it.
func (s *Store) Reseal(ctx context.Context, by By, limit int, check func(*Tx) error) (int, error) {
	todo, err := s.stale(ctx)
	if err != nil {
		return 0, err
	}
	todo = todo[:min(limit, len(todo))]
	for batch := range slices.Chunk(todo, resealBatch) {
		_, err := s.Change(ctx, by, "secrets.reseal", func(tx *Tx) error {
			if err := check(tx); err != nil {
				return err
			}
			for _, reseal := range batch {
				if err := reseal(tx); err != nil && !errors.Is(err, errFresh) && !errors.Is(err, mesh.ErrNotFound) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("store: seal anew: %w", err)
		}
	}
	return len(todo), nil
}

// stale are the values that another key has sealed, each with what seals it anew.
func (s *Store) stale(ctx context.Context) ([]func(*Tx) error, error) {
	devices, err := staleIn(ctx, s, s.Devices, DeviceSecretPlace, func(d *mesh.Device) *mesh.Sealed { return &d.Secret })
	if err != nil {
		return nil, err
	}
	cells, err := staleIn(ctx, s, s.Cells, CellKeyPlace, func(c *mesh.Cell) *mesh.Sealed { return &c.CAKey })
	if err != nil {
		return nil, err
	}
	blobs, err := s.staleBlobs(ctx)
	if err != nil {
		return nil, err
	}
	backup, err := staleFields(ctx, s, s.Backup, BackupKey, backupFields)
	if err != nil {
		return nil, err
	}
	acme, err := staleFields(ctx, s, s.ACME, ACMEKey, acmeFields)
	if err != nil {
		return nil, err
	}
	sub, err := staleFields(ctx, s, s.SubCert, SubCertKey, subCertFields)
	if err != nil {
		return nil, err
	}
	kubes, err := staleIn(ctx, s, s.Kubes, KubeCredentialPlace, func(k *mesh.KubeCluster) *mesh.Sealed { return &k.Credential })
	if err != nil {
		return nil, err
	}
	hooks, err := s.staleHooks(ctx)
	return slices.Concat(devices, cells, blobs, backup, acme, sub, kubes, hooks), err
}

// staleHooks: both fields of a webhook are sealed anew together.
func (s *Store) staleHooks(ctx context.Context) ([]func(*Tx) error, error) {
	all, _, err := s.Hooks.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []func(*Tx) error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, err := staleFields(ctx, s, s.Hooks, name, hookFields)
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

func staleIn[K ~string, V any](ctx context.Context, s *Store, c *Collection[K, V], place func(K) string, field func(*V) *mesh.Sealed) ([]func(*Tx) error, error) {
	all, _, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []func(*Tx) error
	for _, id := range slices.Sorted(maps.Keys(all)) {
		v := all[id]
		_, err := s.anew(place(id), *field(&v))
		if errors.Is(err, errFresh) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, func(tx *Tx) error {
			v, err := Get(tx, c, id)
			if err != nil {
				return err
			}
			sealed, err := s.anew(place(id), *field(&v))
			if err != nil {
				return err
			}
			return Update(tx, c, id, func(v *V) error {
				*field(v) = sealed
				return nil
			})
		})
	}
	return out, nil
}

// staleBlobs: a blob is sealed as a whole, or not at all.
func (s *Store) staleBlobs(ctx context.Context) ([]func(*Tx) error, error) {
	all, _, err := s.CA.List(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(_ string, b Blob) bool { return !bytes.HasPrefix(b.Data, []byte(mesh.SealedPrefix)) })
	var out []func(*Tx) error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := s.anew(BlobPlace(name), mesh.Sealed(all[name].Data))
		if errors.Is(err, errFresh) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, func(tx *Tx) error {
			b, err := Get(tx, s.CA, name)
			if err != nil {
				return err
			}
			sealed, err := s.anew(BlobPlace(name), mesh.Sealed(b.Data))
			if err != nil {
				return err
			}
			return Update(tx, s.CA, name, func(b *Blob) error {
				b.Data = []byte(sealed)
				return nil
			})
		})
	}
	return out, nil
}

// sealedField is a sealed field and its place.
type sealedField struct {
	place string
	field *mesh.Sealed
}

// backupFields copies what it lists of, so that b is no longer shared.
func backupFields(b *mesh.BackupSettings) []sealedField {
	b.Remotes = slices.Clone(b.Remotes)
	out := []sealedField{{BackupVerifyPlace(), &b.VerifyIdentity}, {BackupSignPlace(), &b.SignKey}}
	for i := range b.Remotes {
		out = append(out, sealedField{BackupRemotePlace(b.Remotes[i].Name), &b.Remotes[i].Credential})
	}
	return out
}

func acmeFields(a *mesh.ACMESettings) []sealedField {
	return []sealedField{{ACMEAccountPlace(), &a.AccountKey}, {ACMEExternalPlace(), &a.ExternalKey}, {DNSCredentialPlace(), &a.DNS.Credential}}
}

func subCertFields(c *mesh.SubscriptionCert) []sealedField {
	return []sealedField{{SubCertKeyPlace(), &c.Pending}, {SubCertKeyPlace(), &c.Key}}
}

func hookFields(h *mesh.Webhook) []sealedField {
	return []sealedField{{HookURLPlace(h.Name), &h.URL}, {HookSecretPlace(h.Name), &h.Secret}}
}

// staleFields: the sealed fields of an object that there is one of are sealed
// anew together.
func staleFields[V any](ctx context.Context, s *Store, c *Collection[string, V], id string, fields func(*V) []sealedField) ([]func(*Tx) error, error) {
	all, _, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	v := all[id]
	err = s.anewFields(fields(&v))
	if errors.Is(err, errFresh) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []func(*Tx) error{func(tx *Tx) error {
		v, err := Get(tx, c, id)
		if err != nil {
			return err
		}
		if err := s.anewFields(fields(&v)); err != nil {
			return err
		}
		return Update(tx, c, id, func(old *V) error {
			*old = v
			return nil
		})
	}}, nil
}

// anewFields brings sealed fields under the key of now, or returns errFresh.
func (s *Store) anewFields(fields []sealedField) error {
	fresh := true
	for _, f := range fields {
		sealed, err := s.anew(f.place, *f.field)
		if errors.Is(err, errFresh) {
			continue
		}
		if err != nil {
			return err
		}
		*f.field, fresh = sealed, false
	}
	if fresh {
		return errFresh
	}
	return nil
}

// anew seals a value under the key of now, or returns errFresh.
func (s *Store) anew(place string, sealed mesh.Sealed) (mesh.Sealed, error) {
	if sealed == "" {
		return "", errFresh
	}
	secret, fresh, err := s.unseal(place, sealed)
	if err != nil {
		return "", err
	}
	if fresh {
		return "", errFresh
	}
	return s.Seal(place, secret)
}

// Compact forgets what was before a moment; watches of now go on.
func (s *Store) Compact(ctx context.Context, before Rev) error {
	err := s.retry(ctx, func(ctx context.Context) error {
		_, err := s.client.Compact(ctx, int64(before), clientv3.WithCompactPhysical())
		return err
	})
	return wrap("compact", err)
}
