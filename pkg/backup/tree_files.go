package backup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Files is a Tree in memory: path to content.
type Files map[string][]byte

// Each is that of Tree.
func (f Files) Each(ctx context.Context, prefix string, each func(path string, data []byte) error) error {
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(path, f[path]); err != nil {
			return err
		}
	}
	return nil
}

// File is that of Tree.
func (f Files) File(_ context.Context, path string) ([]byte, error) {
	data, ok := f[path]
	if !ok {
		return nil, fmt.Errorf("backup: file %q: %w", mesh.Quotable(path), mesh.ErrNotFound)
	}
	return data, nil
}

// Apply makes one change of a Draft.
func (f Files) Apply(c File) {
	if c.Gone {
		delete(f, c.Path)
		return
	}
	f[c.Path] = c.Data
}
