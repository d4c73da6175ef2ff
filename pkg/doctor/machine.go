package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

// Folder checks a data folder: that it is there or can be made, that nobody
// else can look into it, and that the disk has room (bytes).
func Folder(dir string, room uint64) Check {
	return Check{"folder " + dir, func(context.Context) Finding {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return parent(dir)
		}
		if err != nil {
			return fail(err.Error(), "let the user that runs meshctl reach it")
		}
		switch {
		case !info.IsDir():
			return fail("it is not a folder", "move it away, or set dir to another path")
		case info.Mode().Perm()&0o077 != 0:
			return fail(fmt.Sprintf("its mode is %04o", info.Mode().Perm()), "chmod 700 "+dir)
		case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
			return fail("this user cannot write to it", fmt.Sprintf("run as its owner, or: chown %d %s", os.Geteuid(), dir))
		}
		return space(dir, room)
	}}
}

func parent(dir string) Finding {
	up := filepath.Dir(dir)
	for up != "/" {
		if _, err := os.Stat(up); err == nil {
			break
		}
		up = filepath.Dir(up)
	}
	if unix.Access(up, unix.W_OK|unix.X_OK) != nil {
		return fail("it does not exist and this user cannot make it below "+up, fmt.Sprintf("install -d -m 700 -o %d %s", os.Geteuid(), dir))
	}
	return ok("it does not exist yet and will be made")
}

func space(dir string, room uint64) Finding {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return warn("free space is unknown: "+err.Error(), "look with: df "+dir)
	}
	free := st.Bavail * uint64(st.Bsize)
	detail := fmt.Sprintf("%.1f GiB free", float64(free)/gib)
	if free < room {
		return fail(detail, fmt.Sprintf("make room: %.1f GiB are wanted", float64(room)/gib))
	}
	return ok("mode 0700, " + detail)
}

// Descriptors checks that this process may have as many open files as the role
// needs.
func Descriptors(need uint64) Check {
	return Check{"open files", func(context.Context) Finding {
		var lim syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
			return warn("the limit is unknown: "+err.Error(), "look with: ulimit -Hn")
		}
		detail := fmt.Sprintf("at most %d, %d needed", lim.Max, need)
		if lim.Max < need {
			return fail(detail, fmt.Sprintf("LimitNOFILE=%d in the unit, or lower the connection limit", need))
		}
		return ok(detail)
	}}
}

// Clock checks that the kernel's clock is being kept right: certificates and
// tokens have ends, and a node ten minutes off is refused.
func Clock() Check {
	return Check{"clock", func(context.Context) Finding {
		var t unix.Timex
		state, err := unix.Adjtimex(&t)
		if err != nil {
			return warn("its state is unknown: "+err.Error(), "look with: timedatectl")
		}
		if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
			return warn("no service keeps the clock right", "run one, such as systemd-timesyncd or chrony")
		}
		return ok("kept right by a time service")
	}}
}
