package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// label is a name an object holds, and the index in which it is unique. Case
// matters: Alice and alice are two.
type label struct{ within, name string }

// holder is the value of a key in the index of labels.
type holder struct {
	Name string `json:"name"` // readable, since the key is not
	ID   string `json:"id"`
}

// rename gives object id the labels now instead of was. It returns ErrExists
// when another object holds one.
func (tx *Tx) rename(id string, was, now []label) error {
	for _, l := range was {
		if !slices.Contains(now, l) {
			key := nameKey(l.within, l.name)
			if _, err := tx.read(key, true); err != nil {
				return err
			}
			tx.put(key, nil, nil)
		}
	}
	for _, l := range now {
		if !slices.Contains(was, l) {
			if err := tx.claim(id, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *Tx) claim(id string, l label) error {
	if err := mesh.CheckName(l.name); err != nil && l.within != folderSuffixes {
		return err
	}
	key := nameKey(l.within, l.name)
	e, err := tx.read(key, true)
	if err != nil {
		return err
	}
	if e.rev != 0 {
		return mesh.WithHint(fmt.Errorf("the name %q is taken: %w", mesh.Quotable(l.name), mesh.ErrExists), "choose another name")
	}
	data, err := codec.Encode(holder{Name: l.name, ID: id})
	if err != nil {
		return err
	}
	tx.put(key, data, nil)
	return nil
}

// Lookup is Collection.Lookup inside a transaction.
func Lookup[K ~string, V any](tx *Tx, c *Collection[K, V], ref string) (V, error) {
	if mesh.IsID(ref) || c.names == nil {
		return Get(tx, c, K(ref))
	}
	id, err := tx.resolve(c.kind, ref)
	if err != nil {
		var none V
		return none, err
	}
	return Get(tx, c, K(id))
}

func (tx *Tx) resolve(k kind, ref string) (string, error) {
	if k.folder == folderDevices {
		return tx.resolveDevice(k, ref)
	}
	id, err := tx.holderOf(k.folder, ref)
	if errors.Is(err, mesh.ErrNotFound) {
		return "", tx.unknown(k, ref)
	}
	return id, err
}

// holderOf is the id of the object with that label. It returns ErrNotFound.
func (tx *Tx) holderOf(within, name string) (string, error) {
	if name == "" || len(name) > mesh.MaxNameLen {
		return "", mesh.ErrNotFound
	}
	e, err := tx.read(nameKey(within, name), true)
	if err != nil {
		return "", err
	}
	if e.rev == 0 {
		return "", mesh.ErrNotFound
	}
	h, err := codec.Decode[holder](e.data)
	return h.ID, err
}

// resolveDevice finds a device by its label or by member/label, both of which
// may hold slashes, if there is only one that can be meant.
func (tx *Tx) resolveDevice(k kind, ref string) (string, error) {
	all, err := tx.holders(folderDevices)
	if err != nil {
		return "", err
	}
	ids := map[string]bool{}
	for _, h := range all {
		if h.Name == ref {
			ids[h.ID] = true
		}
	}
	for i := range ref {
		if ref[i] != '/' {
			continue
		}
		id, err := tx.memberDevice(ref[:i], ref[i+1:])
		if err == nil {
			ids[id] = true
		} else if !errors.Is(err, mesh.ErrNotFound) {
			return "", err
		}
	}
	switch len(ids) {
	case 0:
		return "", tx.unknown(k, ref)
	case 1:
		return slices.Collect(maps.Keys(ids))[0], nil
	}
	return "", mesh.WithHint(fmt.Errorf("store: find device %q: several members have one: %w", mesh.Quotable(ref), mesh.ErrInvalid),
		"say which: MEMBER/DEVICE, or the device's id")
}

func (tx *Tx) memberDevice(member, device string) (string, error) {
	id := member
	if !mesh.IsID(member) {
		var err error
		if id, err = tx.holderOf(folderMembers, member); err != nil {
			return "", err
		}
	}
	return tx.holderOf(deviceNames(mesh.MemberID(id)), device)
}

// holders lists an index of labels.
func (tx *Tx) holders(within string) ([]holder, error) {
	entries, err := tx.list(namesPrefix(within), true)
	if err != nil {
		return nil, err
	}
	out := make([]holder, 0, len(entries))
	for _, e := range entries {
		h, err := codec.Decode[holder](e.data)
		if err != nil {
			return nil, fmt.Errorf("store: read %s: %w", strings.TrimPrefix(e.key, root), err)
		}
		out = append(out, h)
	}
	return out, nil
}

// unknown is ErrNotFound for a label, with the labels most like it.
func (tx *Tx) unknown(k kind, ref string) error {
	err := fmt.Errorf("store: find %s %q: %w", k.name, mesh.Quotable(ref), mesh.ErrNotFound)
	all, listErr := tx.holders(k.folder)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	var names []string
	for _, h := range all {
		names = append(names, h.Name)
	}
	if k.folder == folderDevices { // the member may be what is misspelt
		ref = ref[strings.LastIndexByte(ref, '/')+1:]
	}
	if like := mesh.Nearest(ref, names); len(like) > 0 {
		for i, n := range like {
			like[i] = strconv.Quote(n)
		}
		return mesh.WithHint(err, "did you mean "+strings.Join(like, " or ")+"?")
	}
	return err
}
