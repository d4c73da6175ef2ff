package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ObjectAt reads one object of a backup and checks the way to it: signature,
// index, files. It returns ErrNotFound when the backup does not have it, and
// otherwise the errors of Read.
func ObjectAt(ctx context.Context, tree Tree, ids []Identity, opts ReadOptions, folder, id string) (Object, error) {
	if !validFolder(folder) || !validID(id) {
		return Object{}, fmt.Errorf("backup: object %q: %w", mesh.Quotable(folder+"/"+id), mesh.ErrInvalid)
	}
	r := &reader{tree: tree, ids: ids, opts: opts}
	if err := r.begin(ctx); err != nil {
		return Object{}, err
	}
	p, ok := r.parts[folder+"/"+id]
	if !ok {
		if err := r.faults.err(); err != nil {
			return Object{}, err
		}
		return Object{}, fmt.Errorf("backup: object %s: %w", Object{Folder: folder, ID: id}.Name(), mesh.ErrNotFound)
	}
	r.parts = map[string]*parts{folder + "/" + id: p}
	for _, ext := range []string{extOpen, extClosed} {
		path := pathOf(folder, id) + ext
		if r.want[path] == nil {
			continue
		}
		data, err := tree.File(ctx, path)
		if errors.Is(err, mesh.ErrNotFound) {
			r.faults.add(path, "is missing")
			continue
		}
		if err != nil {
			return Object{}, fmt.Errorf("backup: read: %w", err)
		}
		if w, ok := r.file(path, data); ok {
			r.part(job{path, data, w})
		}
	}
	r.finish()
	if err := r.faults.err(); err != nil {
		return Object{}, err
	}
	return r.state.Objects[0], nil
}
