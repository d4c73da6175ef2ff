//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const groupRoot = "/sys/fs/cgroup"

// makeGroups makes a control group in every hierarchy (version 1) that kubelet
// can take for its root. A new one of cpuset has no processors and no memory,
// with which nothing could run in it.
func makeGroups(name string) error {
	hierarchies, err := filepath.Glob(filepath.Join(groupRoot, "*"))
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := os.MkdirAll(filepath.Join(h, name), 0o755); err != nil {
			return err
		}
	}
	set := filepath.Join(groupRoot, "cpuset")
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(set, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(set, name, file), value, 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(set, name, "cgroup.clone_children"), []byte("1"), 0)
}

// removeGroups removes every control group whose name begins with start, with all
// in it. The kernel holds one for a moment after its last process has ended.
func removeGroups(start string) error {
	tops, err := filepath.Glob(filepath.Join(groupRoot, "*", start+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range tops {
		errs = append(errs, retry(context.Background(), 20*time.Second, "remove "+top, func() error { return removeGroup(top) }))
	}
	return errors.Join(errs...)
}

func removeGroup(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) { // inner ones first
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("rmdir %s: %w", dir, err)
		}
	}
	return nil
}

// retry polls until try returns nil.
func retry(ctx context.Context, limit time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, limit, err)
		case <-tick.C:
		}
	}
}
