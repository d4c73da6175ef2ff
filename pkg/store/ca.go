package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// used is the value of a key under once/.
type used struct {
	At time.Time `json:"at"`
}

// usedBefore says whether the key was used before a time; not if it is damaged.
func usedBefore(e entry, t time.Time) bool {
	u, err := codec.Decode[used](e.data)
	return err == nil && u.At.Before(t)
}

// UseOnce returns true to one caller for each key, whichever servers ask. A
// caller that gets an error does not know whether it was the one.
func (s *Store) UseOnce(ctx context.Context, key string) (first bool, err error) {
	sum := sha256.Sum256([]byte(key))
	at := onceKey(hex.EncodeToString(sum[:]))
	_, err = s.Update(ctx, func(tx *Tx) error {
		e, err := tx.read(at, true)
		if err != nil {
			return err
		}
		if first = e.rev == 0; !first {
			return nil
		}
		data, err := codec.Encode(used{time.Now().UTC()})
		if err != nil {
			return err
		}
		tx.put(at, data, nil)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("store: use once: %w", err)
	}
	return first, nil
}
