package backup

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// rendered is an object on its way into files.
type rendered struct {
	object       Object
	path         string // without extension
	shard        string
	old          entry
	was          bool
	entry        entry
	open, closed []byte // what is to be written, nil when the file stays
	err          error
}

// objects writes the files of objects, and the index.
func (d *draft) objects(ctx context.Context) error {
	rest := d.s.Objects
	for len(rest) > 0 {
		folder := rest[0].Folder
		n := slices.IndexFunc(rest, func(o Object) bool { return o.Folder != folder })
		if n < 0 {
			n = len(rest)
		}
		if err := d.folder(ctx, folder, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for _, folder := range slices.Sorted(maps.Keys(d.base.folders)) {
		if _, ok := d.m.Folders[folder]; !ok {
			if err := d.folder(ctx, folder, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *draft) folder(ctx context.Context, folder string, objects []Object) error {
	index := make(map[string]shard)
	for part := range slices.Chunk(objects, batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, r := range d.render(part) {
			if r.err != nil {
				return fmt.Errorf("backup: draft %s: %w", r.object.Name(), r.err)
			}
			if index[r.shard] == nil {
				index[r.shard] = make(shard)
			}
			index[r.shard][r.object.ID] = r.entry
			if err := d.write(r); err != nil {
				return err
			}
		}
	}
	if err := d.removed(folder, index); err != nil {
		return err
	}
	return d.index(folder, index, len(objects))
}

// render renders objects side by side.
func (d *draft) render(objects []Object) []*rendered {
	out := make([]*rendered, len(objects))
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(objects))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(objects); i += workers {
				out[i] = d.renderOne(objects[i])
			}
		})
	}
	wg.Wait()
	return out
}

func (d *draft) renderOne(o Object) *rendered {
	r := &rendered{object: o, path: pathOf(o.Folder, o.ID), shard: shardOf(o.Folder, o.ID)}
	r.old, r.was = d.base.entry(o.Folder, r.shard, o.ID)
	v, err := parseJSON(o.JSON)
	if err != nil {
		r.err = err
		return r
	}
	seen, rest := ruleOf(o.Folder).split(v, d.s.Plaintext)
	text := toYAML(seen)
	if r.entry.open = digest(text); r.entry.open != r.old.open {
		r.open = text
	}
	switch {
	case len(rest) == 0:
	case d.to.empty():
		r.entry.partial = true
	default:
		r.err = r.seal(d, toYAML(rest))
	}
	return r
}

// seal encrypts, unless the same was encrypted for the same already.
func (r *rendered) seal(d *draft, plain []byte) (err error) {
	r.entry.plain = d.mac.of(r.path, plain)
	if r.old.closed != "" && r.old.plain == r.entry.plain && d.same() {
		r.entry.closed = r.old.closed
		return nil
	}
	r.closed, err = d.to.seal(plain)
	r.entry.closed = digest(r.closed)
	return err
}

func (d *draft) write(r *rendered) error {
	switch {
	case !r.was:
		d.sum.count(r.object.Folder, func(c *Count) { c.Added++ })
	case r.entry != r.old:
		d.sum.count(r.object.Folder, func(c *Count) { c.Changed++ })
	}
	if r.open != nil {
		if err := d.put(r.path+extOpen, r.open); err != nil {
			return err
		}
	}
	if r.closed != nil {
		return d.put(r.path+extClosed, r.closed)
	}
	if r.old.closed != "" && r.entry.closed == "" {
		return d.remove(r.path + extClosed)
	}
	return nil
}

// removed takes away the files of objects that are no more.
func (d *draft) removed(folder string, index map[string]shard) error {
	for name, old := range d.base.shards[folder] {
		for id, e := range old {
			if _, ok := index[name][id]; ok {
				continue
			}
			d.sum.count(folder, func(c *Count) { c.Removed++ })
			path := pathOf(folder, id)
			if err := d.remove(path + extOpen); err != nil {
				return err
			}
			if e.closed == "" {
				continue
			}
			if err := d.remove(path + extClosed); err != nil {
				return err
			}
		}
	}
	return nil
}

// index writes the shards of a folder's index that changed, and notes its digest.
func (d *draft) index(folder string, index map[string]shard, objects int) error {
	old := d.base.folders[folder]
	sums := make(folderIndex, len(index))
	for _, name := range slices.Sorted(maps.Keys(index)) {
		data := index[name].encode()
		sums[name] = digest(data)
		if sums[name] == old[name] {
			continue
		}
		if err := d.put(shardIndexPath(folder, name), data); err != nil {
			return err
		}
	}
	for name := range old {
		if _, ok := sums[name]; !ok {
			if err := d.remove(shardIndexPath(folder, name)); err != nil {
				return err
			}
		}
	}
	path := folderIndexPath(folder)
	if objects == 0 {
		return d.remove(path)
	}
	data := sums.encode()
	sum := digest(data)
	d.m.Folders[folder] = FolderDigest{Objects: objects, Index: sum}
	if sum == d.base.m.Folders[folder].Index {
		return nil
	}
	return d.put(path, data)
}
