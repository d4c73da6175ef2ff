package entry

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// CheckFiles raises the soft limit of open files to the hard one and says
// whether it suffices for that many connections (0: the default). It returns
// ErrInvalid with a hint.
func CheckFiles(maxConns int) error {
	need := FilesFor(maxConns)
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("entry: read limit of open files: %w", err)
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return fmt.Errorf("entry: raise limit of open files to %d: %w", l.Max, err)
		}
	}
	if l.Cur < need {
		return mesh.WithHint(
			fmt.Errorf("entry: %d open files are allowed, %d connections need %d: %w", l.Cur, Limits{Total: maxConns}.withDefaults().Total, need, mesh.ErrInvalid),
			fmt.Sprintf("set LimitNOFILE=%d (systemd) or the container's ulimit, or lower the number of connections", need))
	}
	return nil
}
