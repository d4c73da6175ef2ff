package mgmt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// socket is the unix socket: whoever is root or runs the server is its owner.
type socket struct {
	out *conveyor
	log *slog.Logger
}

func (s *socket) serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer ln.Close() // removes the file too
	for {
		conn, err := acceptPatiently(ctx, ln, s.log)
		if conn == nil {
			return err
		}
		uid, err := peerUID(conn)
		if err != nil || uid != 0 && uid != uint32(os.Getuid()) {
			s.log.Warn("socket caller refused", "err", cmp.Or(err, fmt.Errorf("mgmt: user %d is neither root nor the server's: %w", uid, mesh.ErrDenied)))
			conn.Close()
			continue
		}
		known := &knownConn{Conn: conn, raw: conn, closed: func() {}, caller: caller{door: doorSocket, kind: kindLocal, uid: uid}}
		if !s.out.put(known) {
			known.cut()
		}
	}
}

// peerUID asks the kernel who is at the other end (SO_PEERCRED).
func peerUID(c net.Conn) (uint32, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, errors.New("mgmt: read peer credentials: not a unix socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("mgmt: read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, fmt.Errorf("mgmt: read peer credentials: %w", err)
	}
	return cred.Uid, nil
}

// listenSocket listens on path, mode 0600. A file left by a server that was
// killed is removed, one that somebody answers on is not.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("mgmt: listen on %s: %w", path, err)
	}
	// The socket is made under a private name and mode, then renamed: it is
	// never open to others, not even for a moment, whatever the umask.
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("mgmt: listen on %s: %w", path, err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("mgmt: listen on %s: %w", path, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(tmp, 0o600), os.Rename(tmp, path)); err != nil {
		ln.Close()
		return nil, fmt.Errorf("mgmt: listen on %s: %w", path, err)
	}
	return &socketListener{ln, path}, nil
}

// socketListener removes its file when it is closed.
type socketListener struct {
	net.Listener
	path string
}

func (l *socketListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.Listener.Close())
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return mesh.WithHint(fmt.Errorf("there is a file that is no socket: %w", mesh.ErrExists), "move it away, or set socket to another path")
	}
	d := net.Dialer{Timeout: time.Second}
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		c.Close()
		return mesh.WithHint(fmt.Errorf("another server answers there: %w", mesh.ErrExists), "stop it first, or set socket to another path")
	}
	return os.Remove(path)
}
