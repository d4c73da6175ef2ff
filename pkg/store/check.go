package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// CheckObjects says, without any etcd, what Import would find wrong with the
// objects, and which of their sealed fields do not open under the data keys. The
// error names the first faults, with ErrInvalid.
func CheckObjects(objects []Raw, keys ...[32]byte) error {
	s := &Store{dataKeys: keys}
	s.collections()
	if _, err := s.planImport(objects); err != nil {
		return fmt.Errorf("store: check: %w", err)
	}
	var faults []error
	for _, o := range objects {
		faults = append(faults, s.shut(o)...)
	}
	n := len(faults)
	if n == 0 {
		return nil
	}
	shown := faults[:min(n, maxFaults)]
	if n > len(shown) {
		shown = append(shown[:len(shown):len(shown)], fmt.Errorf("and %d more faults", n-len(shown)))
	}
	return fmt.Errorf("store: check: %d secrets do not open: %w: %w", n, mesh.ErrInvalid, errors.Join(shown...))
}

// shut are the sealed fields of an object that do not open, each as a fault.
func (s *Store) shut(o Raw) []error {
	var faults []error
	for _, f := range sealedIn(o) {
		if *f.field == "" {
			continue
		}
		if _, err := s.Unseal(f.place, *f.field); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// sealedIn are the sealed fields of an object that decodes.
func sealedIn(o Raw) []sealedField {
	switch o.Folder {
	case folderDevices:
		return fieldsIn(o, func(d *mesh.Device) []sealedField { return []sealedField{{DeviceSecretPlace(d.ID), &d.Secret}} })
	case folderCells:
		return fieldsIn(o, func(c *mesh.Cell) []sealedField { return []sealedField{{CellKeyPlace(c.ID), &c.CAKey}} })
	case folderCA:
		return fieldsIn(o, func(b *Blob) []sealedField {
			if !strings.HasPrefix(string(b.Data), mesh.SealedPrefix) {
				return nil
			}
			return []sealedField{{BlobPlace(o.ID), new(mesh.Sealed(b.Data))}}
		})
	case folderBackup:
		return fieldsIn(o, backupFields)
	case folderACME:
		return fieldsIn(o, acmeFields)
	case folderSubCert:
		return fieldsIn(o, subCertFields)
	case folderHooks:
		return fieldsIn(o, hookFields)
	case folderKubes:
		return fieldsIn(o, func(k *mesh.KubeCluster) []sealedField {
			return []sealedField{{KubeCredentialPlace(k.ID), &k.Credential}}
		})
	}
	return nil
}

func fieldsIn[V any](o Raw, fields func(*V) []sealedField) []sealedField {
	v, _ := codec.Decode[V](o.Value) // it was decoded before
	return fields(&v)
}
