package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// hasContent says whether a file is there and holds exactly text.
func hasContent(name string, text []byte) (bool, error) {
	got, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("install: %w", err)
	}
	return bytes.Equal(got, text), nil
}

// sameFile says whether two files are one, or have the same content.
func sameFile(a, b string) (bool, error) {
	ai, err := os.Stat(a)
	if err != nil {
		return false, fmt.Errorf("install: %w", err)
	}
	bi, err := os.Stat(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("install: %w", err)
	}
	if os.SameFile(ai, bi) {
		return true, nil
	}
	if ai.Size() != bi.Size() {
		return false, nil
	}
	return sameContent(a, b)
}

func sameContent(a, b string) (bool, error) {
	text, err := os.ReadFile(a)
	if err != nil {
		return false, fmt.Errorf("install: %w", err)
	}
	return hasContent(b, text)
}

// copyFile puts a copy in the place of what is there, which may be running.
func copyFile(from, to string, mode fs.FileMode) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	return replace(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	})
}

func writeFile(name string, text []byte, mode fs.FileMode) error {
	return replace(name, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// replace writes a file beside its place and moves it there, with this mode
// whatever the umask.
func replace(name string, mode fs.FileMode, fill func(io.Writer) error) (err error) {
	if err := makeDirs(filepath.Dir(name)); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(fill(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// makeDirs makes the folders of the system that a minimal image may lack.
func makeDirs(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	return makeDir(dir, 0o755)
}

// makeDir makes one folder below those of the system, with this mode whatever
// the umask.
func makeDir(dir string, mode fs.FileMode) error {
	if err := makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}
