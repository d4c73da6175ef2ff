//go:build faults

package faults

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// smallDisk holds what etcd preallocates and little more.
const smallDisk = 320 << 20

func mountSmallDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(prefix+"disk", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDisk)); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

func unmountSmallDisk(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// unmountLeftovers unmounts the disks of runs that were killed.
func unmountLeftovers() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[0] == prefix+"disk" {
			errs = append(errs, unmountSmallDisk(f[1]))
		}
	}
	return errors.Join(errs...)
}
