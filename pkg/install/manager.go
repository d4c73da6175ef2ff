package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"time"
)

// Systemd is the Manager of this machine.
type Systemd struct{}

// within bounds one command; stopping a role waits for its connections.
const within = 12 * time.Minute

func run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

func (Systemd) MakeUsers(ctx context.Context, file string) error {
	return run(ctx, "systemd-sysusers", file)
}

func (Systemd) RemoveUser(ctx context.Context, name string) error { return run(ctx, "userdel", name) }

func (Systemd) Owner(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(uerr, gerr)
}

func (Systemd) Reload(ctx context.Context) error { return run(ctx, "systemctl", "daemon-reload") }

func (s Systemd) Disable(ctx context.Context, unit string) error {
	if !s.Running() {
		return run(ctx, "systemctl", "disable", unit)
	}
	return run(ctx, "systemctl", "disable", "--now", unit)
}

// Running looks where sd_booted(3) does.
func (Systemd) Running() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}
