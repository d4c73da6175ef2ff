package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

const (
	// importBytes and importOps bound what one transaction imports.
	importBytes = 512 << 10
	importOps   = 100
	// maxFaults bounds how many faults Import names.
	maxFaults = 20
)

// importing is the value of the key that is there while an import is not
// complete.
type importing struct {
	Digest  string    `json:"digest"` // of what is being imported
	Objects int       `json:"objects"`
	Began   time.Time `json:"began"`
}

// errHalf says that an import was cut off.
var errHalf = mesh.WithHint(fmt.Errorf("an import of the state was begun and is not complete: %w", mesh.ErrConflict),
	"repeat the same restore, which goes on where it was cut off; or empty the data folder and restore another backup")

// Whole returns ErrConflict while an import into this store is not complete. A
// server does not serve such a state.
func (s *Store) Whole(ctx context.Context) error {
	resp, err := s.get(ctx, importingKey)
	if err == nil && len(resp.Kvs) > 0 {
		err = errHalf
	}
	return wrap("look at the state", err)
}

// Import writes objects that Export has read, here or elsewhere, and audit
// records, into a store that has none. Labels are indexed and routes derived
// again, see importRoutes; targets are the reconcilers' to derive. What an object
// has that this program does not know is kept.
//
// All objects are checked before the first is written; the error names the first
// faults, with ErrInvalid. It returns ErrConflict when the store holds anything.
// An import that is cut off leaves a mark, by which Whole knows it, until the
// same is imported again: that goes on with it. progress, if not nil, is told
// how many of all are written.
func (s *Store) Import(ctx context.Context, objects []Raw, progress func(done, all int)) error {
	p, err := s.planImport(objects)
	if err != nil {
		return fmt.Errorf("store: import: %w", err)
	}
	routes, err := p.routes(time.Now())
	if err != nil {
		return fmt.Errorf("store: import: %w", err)
	}
	mark, err := s.beginImport(ctx, p.out)
	if err != nil {
		return wrap("import", err)
	}
	done, writes := 0, append(p.out, routes...)
	for batch := range batches(writes) {
		if err := s.importTxn(ctx, mark, opsOf(batch)); err != nil {
			return wrap("import", err)
		}
		if done += len(batch); progress != nil {
			progress(done, len(writes))
		}
	}
	last, err := p.chain()
	if err != nil {
		return fmt.Errorf("store: import: %w", err)
	}
	return wrap("import", s.importTxn(ctx, mark, append(last, clientv3.OpDelete(importingKey), clientv3.OpPut(changedKey, deletionMark))))
}

// imported is an object that is to be written, with its labels.
type imported struct {
	key  string
	data []byte
	ops  []clientv3.Op
	size int
}

// also has a derived value written with the object.
func (w *imported) also(key string, v any) error {
	data, err := codec.Encode(v)
	if err != nil {
		return err
	}
	w.ops, w.size = append(w.ops, clientv3.OpPut(key, string(data))), w.size+len(data)
	return nil
}

// planImport checks everything and returns what to write, in order of key.
func (s *Store) planImport(objects []Raw) (*importPlan, error) {
	p := newImportPlan(s)
	for _, o := range objects {
		if err := p.add(o); err != nil {
			p.faults = append(p.faults, err)
		}
	}
	p.checkSuffixes()
	if n := len(p.faults); n > 0 {
		shown := p.faults[:min(n, maxFaults)]
		if n > len(shown) {
			shown = append(slices.Clone(shown), fmt.Errorf("and %d more faults", n-len(shown)))
		}
		return nil, fmt.Errorf("nothing was written, %d of %d objects are not as they should be: %w: %w", n, len(objects), mesh.ErrInvalid, errors.Join(shown...))
	}
	slices.SortFunc(p.out, func(a, b imported) int { return cmp.Compare(a.key, b.key) })
	return p, nil
}

type importPlan struct {
	kinds    map[string]portable
	keys     map[string]bool
	labels   map[string]string // key of the index → who holds it
	suffixes []mesh.ServerName
	out      []imported
	faults   []error
	last     mesh.AuditSegment // of the chain over the audit records

	// What routes are derived from.
	people People
	cores  map[mesh.CellID][]mesh.Core
}

func newImportPlan(s *Store) *importPlan {
	return &importPlan{
		kinds: s.portables(), keys: map[string]bool{}, labels: map[string]string{},
		people: noPeople(), cores: map[mesh.CellID][]mesh.Core{},
	}
}

func (p *importPlan) add(o Raw) error {
	what := o.Folder + "/" + o.ID
	kind := p.kinds[o.Folder]
	if kind == nil {
		return fmt.Errorf("%s: no kind of object that can be imported", mesh.Quotable(what))
	}
	value, labels, err := kind.unpack(o.ID, o.Value)
	if err != nil {
		return err
	}
	data, err := codec.Head(o.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	key := folderPrefix(o.Folder) + o.ID
	if p.keys[key] {
		return fmt.Errorf("%s: there are two of it", what)
	}
	p.keys[key] = true
	w := imported{key: key, data: data, size: len(data), ops: []clientv3.Op{clientv3.OpPut(key, string(data))}}
	for _, l := range labels {
		at := nameKey(l.within, l.name)
		if first := p.labels[at]; first != "" {
			return fmt.Errorf("%s: the name %q is that of %s", what, mesh.Quotable(l.name), first)
		}
		p.labels[at] = what
		if err := w.also(at, holder{Name: l.name, ID: o.ID}); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if l.within == folderSuffixes {
			p.suffixes = append(p.suffixes, mesh.ServerName(l.name))
		}
	}
	p.out = append(p.out, w)
	p.note(value)
	return nil
}

// checkSuffixes: see checkSuffix.
func (p *importPlan) checkSuffixes() {
	for i, a := range p.suffixes {
		for _, b := range p.suffixes[:i] {
			if overlap(a, b) {
				p.faults = append(p.faults, fmt.Errorf("cells: the suffixes %s and %s overlap", a, b))
			}
		}
	}
}

// batches are what fits into one transaction each.
func batches(writes []imported) func(yield func([]imported) bool) {
	return func(yield func([]imported) bool) {
		from, ops, size := 0, 0, 0
		for i, w := range writes {
			if i > from && (ops+len(w.ops) > importOps || size+w.size > importBytes) {
				if !yield(writes[from:i]) {
					return
				}
				from, ops, size = i, 0, 0
			}
			ops, size = ops+len(w.ops), size+w.size
		}
		if from < len(writes) {
			yield(writes[from:])
		}
	}
}

// emptyFolders are those that must hold nothing before an import.
func emptyFolders() []string {
	return append(slices.Clone(exported[:]), folderAudit, folderNames, folderRoutes, folderTargets)
}

// beginImport sets the mark in a store that is empty, or finds that of the same
// import, and returns the revision that made it.
func (s *Store) beginImport(ctx context.Context, writes []imported) (int64, error) {
	mark := importing{Digest: digestOf(writes), Objects: len(writes), Began: time.Now().UTC()}
	value, err := codec.Encode(mark)
	if err != nil {
		return 0, err
	}
	var cmps []clientv3.Cmp
	for _, folder := range emptyFolders() {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(folderPrefix(folder)), "=", 0).WithPrefix())
	}
	cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(importingKey), "=", 0))
	var resp *clientv3.TxnResponse
	if err := s.retry(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Txn(ctx).If(cmps...).Then(clientv3.OpPut(importingKey, string(value)), clientv3.OpGet(importingKey)).
			Else(clientv3.OpGet(importingKey)).Commit()
		return err
	}); err != nil {
		return 0, err
	}
	kvs := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return 0, mesh.WithHint(fmt.Errorf("this store is not empty: %w", mesh.ErrConflict),
			"a backup is restored into servers without state of their own; look whether the mesh lives there")
	}
	have, err := codec.Decode[importing](kvs[0].Value)
	if err != nil {
		return 0, err
	}
	if have.Digest != mark.Digest {
		return 0, errHalf
	}
	return kvs[0].CreateRevision, nil
}

// digestOf names what is to be written.
func digestOf(writes []imported) string {
	h := sha256.New()
	for _, w := range writes {
		fmt.Fprintf(h, "%d %s %d ", len(w.key), w.key, len(w.data))
		h.Write(w.data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func opsOf(batch []imported) []clientv3.Op {
	var ops []clientv3.Op
	for _, w := range batch {
		ops = append(ops, w.ops...)
	}
	return ops
}

// importTxn writes while the mark is there, which only the last transaction of
// this import takes away: once it is gone, all is written, by an earlier try
// or by another who imported the same.
func (s *Store) importTxn(ctx context.Context, mark int64, ops []clientv3.Op) error {
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(importingKey), "=", mark)).Then(ops...).Commit()
		return err
	})
}
