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
	for place, sealed := range sealedIn(o) {
		if sealed == "" {
			continue
		}
		if _, err := s.Unseal(place, sealed); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// sealedIn are the sealed fields of an object that decodes, by their places.
func sealedIn(o Raw) map[string]mesh.Sealed {
	switch o.Folder {
	case folderDevices:
		d, _ := codec.Decode[mesh.Device](o.Value) // it was decoded before
		return map[string]mesh.Sealed{DeviceSecretPlace(d.ID): d.Secret}
	case folderCells:
		c, _ := codec.Decode[mesh.Cell](o.Value)
		return map[string]mesh.Sealed{CellKeyPlace(c.ID): c.CAKey}
	case folderCA:
		b, _ := codec.Decode[Blob](o.Value)
		if strings.HasPrefix(string(b.Data), mesh.SealedPrefix) {
			return map[string]mesh.Sealed{BlobPlace(o.ID): mesh.Sealed(b.Data)}
		}
	case folderBackup:
		b, _ := codec.Decode[mesh.BackupSettings](o.Value)
		out := map[string]mesh.Sealed{BackupVerifyPlace(): b.VerifyIdentity, BackupSignPlace(): b.SignKey}
		for _, r := range b.Remotes {
			out[BackupRemotePlace(r.Name)] = r.Credential
		}
		return out
	}
	return nil
}
