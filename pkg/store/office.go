package store

import (
	"context"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Epoch is the epoch of the office under which ctx was made by Lead: later
// holders have a greater one. It is 0 without an office.
func Epoch(ctx context.Context) int64 {
	if f := fenceOf(ctx); f != nil {
		return f.created
	}
	return 0
}

// Holds returns nil when a quorum confirms that the office is still in that
// epoch, and ErrDeposed when it is not. It is for what cannot be a transaction:
// asked right before an effect outside etcd.
func (s *Store) Holds(ctx context.Context, office string, epoch int64) error {
	key, err := officeKey(office)
	if err != nil {
		return err
	}
	resp, err := s.get(ctx, key)
	if err != nil {
		return wrap("look at the office", err)
	}
	if epoch == 0 || len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != epoch {
		return fmt.Errorf("store: office %s: %w", mesh.Quotable(office), ErrDeposed)
	}
	return nil
}
