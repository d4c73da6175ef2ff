package store

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Revert makes an object what data says, as it was stored once, members that
// this program does not know included; an object that is gone is made anew. It
// returns ErrInvalid for what is no object of the kind, and ErrExists for a label
// that is taken meanwhile.
func Revert[K ~string, V any](tx *Tx, c *Collection[K, V], id K, data []byte) error {
	if err := c.writable(tx, "revert", id); err != nil {
		return err
	}
	if _, err := c.inspect(string(id), data); err != nil {
		return fmt.Errorf("store: revert: %w: %w", err, mesh.ErrInvalid)
	}
	e, err := c.read(tx, id, true)
	if err != nil {
		return err
	}
	after, err := c.decode([]byte(e.key), data)
	if err != nil {
		return err
	}
	var before *V
	if e.rev != 0 {
		now, err := c.decode([]byte(e.key), e.data)
		if err != nil {
			return err
		}
		before = &now
	}
	if err := c.settle(tx, "revert", id, before, &after); err != nil {
		return err
	}
	tx.put(e.key, data, &c.kind)
	return nil
}

// Shown is an object as an audit record shows it, without secrets, as the
// transaction sees it now; nil when there is none.
func Shown[K ~string, V any](tx *Tx, c *Collection[K, V], id K) (map[string]any, error) {
	e, err := c.read(tx, id, true)
	if err != nil || e.rev == 0 {
		return nil, err
	}
	return redact(e.data, c.kind.secret)
}

// RevOf is when an object was last changed, 0 when there is none.
func RevOf[K ~string, V any](tx *Tx, c *Collection[K, V], id K) (Rev, error) {
	e, err := c.read(tx, id, true)
	return e.rev, err
}
