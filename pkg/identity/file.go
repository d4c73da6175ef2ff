package identity

import (
	"fmt"
	"os"
	"path/filepath"
)

// partial ends the names of files that are not complete yet.
const partial = ".partial"

// writeFile replaces path by data so that a crash at any moment leaves the old
// content or the new. The mode is 0600 whatever the umask. step, for tests, is
// called before each step and may fail it.
func writeFile(path string, data []byte, step func(string) error) error {
	if step == nil {
		step = func(string) error { return nil }
	}
	tmp := path + partial
	if err := step("create"); err != nil {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = fill(f, data, step)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := step("rename"); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if err := step("sync folder"); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func fill(f *os.File, data []byte, step func(string) error) error {
	if err := f.Chmod(0o600); err != nil { // a file left by a crash may be looser
		return err
	}
	if err := step("write"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := step("sync"); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
