package store

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// Get reads one object. It returns ErrNotFound.
func Get[K ~string, V any](tx *Tx, c *Collection[K, V], id K) (V, error) {
	it, err := GetItem(tx, c, id)
	return it.Value, err
}

// GetItem is Get with the moment of the object's last change. That of an object
// this transaction has written is later than every moment of the store.
func GetItem[K ~string, V any](tx *Tx, c *Collection[K, V], id K) (Item[V], error) {
	e, err := c.read(tx, id, true)
	if err != nil {
		return Item[V]{}, err
	}
	if e.rev == 0 {
		return Item[V]{}, c.missing("get", id)
	}
	v, err := c.decode([]byte(e.key), e.data)
	return Item[V]{Key: string(id), Value: v, Rev: e.rev}, err
}

// List reads all objects. The transaction fails to commit, and so runs again,
// when any object of the kind was written, made or deleted since.
func List[K ~string, V any](tx *Tx, c *Collection[K, V]) (map[K]V, error) {
	entries, err := tx.list(c.prefix(), true)
	if err != nil {
		return nil, err
	}
	out := make(map[K]V, len(entries))
	for _, e := range entries {
		v, err := c.decode([]byte(e.key), e.data)
		if err != nil {
			return nil, err
		}
		out[K(c.idOf([]byte(e.key)))] = v
	}
	return out, nil
}

// Create makes an object. It returns ErrExists when the id, or a label of the
// object, is taken.
func Create[K ~string, V any](tx *Tx, c *Collection[K, V], id K, v V) error {
	if err := c.writable(tx, "create", id); err != nil {
		return err
	}
	return create(tx, c, id, v)
}

// create is Create of any kind.
func create[K ~string, V any](tx *Tx, c *Collection[K, V], id K, v V) error {
	e, err := c.read(tx, id, true)
	if err != nil {
		return err
	}
	if e.rev != 0 {
		return fmt.Errorf("store: create %s %s: %w", c.kind.name, id, mesh.ErrExists)
	}
	if err := c.settle(tx, "create", id, nil, &v); err != nil {
		return err
	}
	data, err := codec.Encode(v)
	if err != nil {
		return fmt.Errorf("store: create %s %s: %w", c.kind.name, id, err)
	}
	tx.put(e.key, data, &c.kind)
	return nil
}

// Update changes an object; what f leaves as it was is not written, and members
// of the stored object that this program does not know are kept. f's error is
// returned as it is. It returns ErrNotFound, and ErrExists for a label that is
// taken.
func Update[K ~string, V any](tx *Tx, c *Collection[K, V], id K, f func(*V) error) error {
	if err := c.writable(tx, "update", id); err != nil {
		return err
	}
	e, err := c.read(tx, id, true)
	if err != nil {
		return err
	}
	if e.rev == 0 {
		return c.missing("update", id)
	}
	before, err := c.decode([]byte(e.key), e.data)
	if err != nil {
		return err
	}
	was, err := codec.Encode(before)
	if err != nil {
		return fmt.Errorf("store: update %s %s: %w", c.kind.name, id, err)
	}
	after, err := c.decode([]byte(e.key), e.data) // apart: f may change what before points to
	if err != nil {
		return err
	}
	if err := f(&after); err != nil {
		return err
	}
	return c.replace(tx, id, e, was, before, after)
}

func (c *Collection[K, V]) replace(tx *Tx, id K, e entry, was []byte, before, after V) error {
	now, err := codec.Encode(after)
	if err != nil {
		return fmt.Errorf("store: update %s %s: %w", c.kind.name, id, err)
	}
	if bytes.Equal(was, now) {
		return nil
	}
	if err := c.settle(tx, "update", id, &before, &after); err != nil {
		return err
	}
	data, err := codec.Merge(e.data, after)
	if err != nil {
		return fmt.Errorf("store: update %s %s: %w", c.kind.name, id, err)
	}
	tx.put(e.key, data, &c.kind)
	return nil
}

// Delete removes an object and frees its labels. It returns ErrNotFound.
func Delete[K ~string, V any](tx *Tx, c *Collection[K, V], id K) error {
	if err := c.writable(tx, "delete", id); err != nil {
		return err
	}
	e, err := c.read(tx, id, true)
	if err != nil {
		return err
	}
	if e.rev == 0 {
		return c.missing("delete", id)
	}
	v, err := c.decode([]byte(e.key), e.data)
	if err != nil {
		return err
	}
	if err := c.settle(tx, "delete", id, &v, nil); err != nil {
		return err
	}
	tx.put(e.key, nil, &c.kind)
	return nil
}

func (c *Collection[K, V]) read(tx *Tx, id K, compare bool) (entry, error) {
	key, err := keyOf(c.kind.folder, string(id))
	if err != nil {
		return entry{}, err
	}
	return tx.read(key, compare)
}

func (c *Collection[K, V]) missing(verb string, id K) error {
	return fmt.Errorf("store: %s %s %s: %w", verb, c.kind.name, mesh.Quotable(string(id)), mesh.ErrNotFound)
}

// writable says whether this transaction may write the kind at all.
func (c *Collection[K, V]) writable(tx *Tx, verb string, id K) error {
	bad := func(why string) error {
		return fmt.Errorf("store: %s %s %s: %s: %w", verb, c.kind.name, mesh.Quotable(string(id)), why, mesh.ErrInvalid)
	}
	switch {
	case tx.mode == viewing:
		return errReadOnly
	case c.kind.sealed:
		return bad("written by transactions themselves")
	case c.kind.audited && tx.mode != auditing:
		return bad("this kind needs an audit record: use Change")
	}
	return nil
}

// settle checks what is about to be written and keeps the index of labels in
// step. nil before means created, nil after deleted.
func (c *Collection[K, V]) settle(tx *Tx, verb string, id K, before, after *V) error {
	if after != nil && c.id != nil && c.id(*after) != id {
		return fmt.Errorf("store: %s %s %s: the object says it is %q: %w",
			verb, c.kind.name, id, mesh.Quotable(string(c.id(*after))), mesh.ErrInvalid)
	}
	if after != nil && c.check != nil {
		if err := c.check(tx, before, *after); err != nil {
			return fmt.Errorf("store: %s %s: %w", verb, c.kind.name, err)
		}
	}
	if c.names == nil {
		return nil
	}
	var was, now []label
	if before != nil {
		was = c.names(*before)
	}
	if after != nil {
		now = c.names(*after)
	}
	if err := tx.rename(string(id), was, now); err != nil {
		return fmt.Errorf("store: %s %s: %w", verb, c.kind.name, err)
	}
	return nil
}

// overlap compares DNS suffixes by whole labels.
func overlap(a, b mesh.ServerName) bool { return a == b || below(a, b) || below(b, a) }

func below(a, b mesh.ServerName) bool { return strings.HasSuffix(string(a), "."+string(b)) }
