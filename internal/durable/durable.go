// Package durable writes small files so that after a crash there is the old
// content or the new, never a mix, and reads them so that one damaged file
// costs no more than its last change.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// previous is added to the name of the version before the current one.
const previous = ".old"

// Write replaces the file at path, mode 0600, and keeps the version before it
// beside it: write to a temporary name, fsync, link the old, rename, fsync the
// folder.
func Write(path string, data []byte) error {
	if err := write(path, data); err != nil {
		return fmt.Errorf("durable: write %s: %w", path, err)
	}
	return nil
}

// Remove removes the file and the version before it; that there is none is no
// error.
func Remove(path string) error {
	if err := errors.Join(ignoreAbsent(os.Remove(path)), ignoreAbsent(os.Remove(path+previous))); err != nil {
		return fmt.Errorf("durable: remove %s: %w", path, err)
	}
	return nil
}

// Litter returns the files that a Write of path has left when its process was
// killed; for those who must know that no copy is there.
func Litter(path string) ([]string, error) {
	dir, begin := filepath.Dir(path), "."+filepath.Base(path)+"."
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range all {
		if strings.HasPrefix(f.Name(), begin) {
			out = append(out, filepath.Join(dir, f.Name()))
		}
	}
	return out, nil
}

func write(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreAbsent(os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := keep(path); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// keep gives the current version its second name.
func keep(path string) error {
	if err := ignoreAbsent(os.Remove(path + previous)); err != nil {
		return err
	}
	return ignoreAbsent(os.Link(path, path+previous))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncDir makes what was renamed or removed in dir last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read hands the content of path to parse, and when that refuses it the version
// before. It returns mesh.ErrNotFound when there is no such file, and otherwise
// an error that names the damaged file. older says that the previous version
// was taken.
func Read(path string, parse func([]byte) error) (older bool, err error) {
	err = readOne(path, parse)
	if err == nil {
		return false, nil
	}
	err2 := readOne(path+previous, parse)
	switch {
	case err2 == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(err2, fs.ErrNotExist):
		return false, fmt.Errorf("durable: read %s: %w", path, mesh.ErrNotFound)
	case errors.Is(err, fs.ErrNotExist):
		err = err2
	}
	return false, fmt.Errorf("durable: read %s: %w", path, err)
}

func readOne(path string, parse func([]byte) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := parse(b); err != nil {
		return fmt.Errorf("the file is damaged: %w", err)
	}
	return nil
}
