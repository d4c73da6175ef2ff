package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// What follows is the interface that pkg/ca calls Records.

// PutCert records a certificate that was issued. Recording the same again does
// nothing; another under its serial is ErrExists.
func (s *Store) PutCert(ctx context.Context, rec mesh.CertRecord) error {
	_, err := s.Update(ctx, func(tx *Tx) error {
		have, err := Get(tx, s.Certs, rec.Serial)
		if errors.Is(err, mesh.ErrNotFound) {
			return Create(tx, s.Certs, rec.Serial, rec)
		}
		if err == nil && !sameRecord(have, rec) {
			err = fmt.Errorf("store: record certificate %s: %w", mesh.Quotable(rec.Serial), mesh.ErrExists)
		}
		return err
	})
	return err
}

// sameRecord compares in the stored form, since times lose their zone there.
func sameRecord(a, b mesh.CertRecord) bool {
	x, err1 := codec.Encode(a)
	y, err2 := codec.Encode(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// GetCert returns the record of a certificate. It returns ErrNotFound.
func (s *Store) GetCert(ctx context.Context, serial string) (mesh.CertRecord, error) {
	it, err := s.Certs.Get(ctx, serial)
	return it.Value, err
}

// IsRevoked says whether a revocation covers the certificate of node (role/id)
// with that serial that was issued then.
func (s *Store) IsRevoked(ctx context.Context, node, serial string, issued time.Time) (bool, error) {
	all, _, err := s.Revocations.List(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range all {
		if r.Record.Covers(node, serial, issued) {
			return true, nil
		}
	}
	return false, nil
}
