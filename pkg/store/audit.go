package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// audit adds the record of what the transaction is about to write. Derived
// objects are not in it: they follow from the others.
func (tx *Tx) audit(rec mesh.AuditRecord) error {
	for _, key := range slices.Sorted(maps.Keys(tx.writes)) {
		w := tx.writes[key]
		if w.object == nil || !w.object.audited {
			continue
		}
		was, err := tx.stored(key)
		if err != nil {
			return err
		}
		c := mesh.Change{Object: objectOf(w.object.name, key)}
		if c.Before, err = redact(was.data, w.object.secret); err != nil {
			return err
		}
		if c.After, err = redact(w.data, w.object.secret); err != nil {
			return err
		}
		if c.Before != nil || c.After != nil {
			rec.Changes = append(rec.Changes, c)
		}
	}
	for _, object := range tx.seen {
		rec.Changes = append(rec.Changes, mesh.Change{Object: object})
	}
	data, err := codec.Encode(rec)
	if err != nil {
		return fmt.Errorf("store: record change: %w", err)
	}
	key, err := keyOf(folderAudit, rec.ID)
	if err != nil {
		return err
	}
	tx.reads[key] = entry{key: key}
	tx.must[key] = true // absent: the transaction can be made once
	tx.put(key, data, nil)
	return nil
}

// Accessed puts object (kind/id) into the audit record although it stays as it
// is: who reads a secret is on record too. The record is then written even if
// nothing else is.
func (tx *Tx) Accessed(object string) error {
	if tx.mode != auditing {
		return fmt.Errorf("store: record access to %s: use Change: %w", object, mesh.ErrInvalid)
	}
	tx.seen = append(tx.seen, object)
	return nil
}

// redact decodes a stored object for people to read.
func redact(data []byte, secret []string) (map[string]any, error) {
	if data == nil {
		return nil, nil
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("store: record change: %w", err)
	}
	for _, member := range secret {
		delete(m, member)
	}
	delete(m, "schema")
	delete(m, "minReader")
	mesh.Redact(m)
	return m, nil
}
