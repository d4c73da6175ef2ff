package backup

import (
	"context"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ManifestOf reads what a backup says of itself and checks who signed that, and
// nothing else of it. It returns ErrNotFound where no backup is, and ErrDenied
// for one that is not of the mesh.
func ManifestOf(ctx context.Context, tree Tree, opts ReadOptions) (*Manifest, mesh.ServerID, error) {
	r := &reader{tree: tree, opts: opts}
	err := r.manifest(ctx)
	return r.m, r.state.Server, err
}
