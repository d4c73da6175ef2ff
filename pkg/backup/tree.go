// Package backup is the form in which the state of a mesh lies in a Git
// repository: its files, and how they are made, signed and read.
package backup

import "context"

// File is one file of a backup's tree, or word that it is gone.
type File struct {
	Path string // slash-separated, relative to the root of the repository
	Data []byte
	Gone bool // the file is to be removed; Data is nil
}

// Tree reads the files of one backup: a commit of a repository, or a folder.
type Tree interface {
	// Each hands every file whose path begins with prefix to f, in the order
	// of paths, and stops at the first error, which it returns. The data
	// belongs to f.
	Each(ctx context.Context, prefix string, f func(path string, data []byte) error) error
	// File returns one file, or mesh.ErrNotFound.
	File(ctx context.Context, path string) ([]byte, error)
}
