package chores

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// spool is a tree in one file without a name, which is gone with the process.
type spool struct {
	file *os.File
	size int64
	at   map[string]extent
}

type extent struct{ offset, length int64 }

// newSpool makes one in the folder, which it makes too when there is none.
func newSpool(folder string) (*spool, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("chores: make folder: %w", err)
	}
	f, err := os.CreateTemp(folder, "proof-")
	if err != nil {
		return nil, fmt.Errorf("chores: keep files: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("chores: keep files: %w", err)
	}
	return &spool{file: f, at: map[string]extent{}}, nil
}

func (s *spool) close() error { return s.file.Close() }

func (s *spool) put(f backup.File) error {
	if _, err := s.file.WriteAt(f.Data, s.size); err != nil {
		return fmt.Errorf("chores: keep files: %w", err)
	}
	s.at[f.Path] = extent{s.size, int64(len(f.Data))}
	s.size += int64(len(f.Data))
	return nil
}

// Each is that of backup.Tree.
func (s *spool) Each(ctx context.Context, prefix string, f func(path string, data []byte) error) error {
	for _, path := range slices.Sorted(maps.Keys(s.at)) {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		data, err := s.File(ctx, path)
		if err != nil {
			return err
		}
		if err := f(path, data); err != nil {
			return err
		}
	}
	return nil
}

// File is that of backup.Tree.
func (s *spool) File(ctx context.Context, path string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, ok := s.at[path]
	if !ok {
		return nil, fmt.Errorf("chores: file %s: %w", mesh.Quotable(path), mesh.ErrNotFound)
	}
	data := make([]byte, at.length)
	if _, err := s.file.ReadAt(data, at.offset); err != nil && at.length > 0 {
		return nil, fmt.Errorf("chores: read files: %w", err)
	}
	return data, nil
}
