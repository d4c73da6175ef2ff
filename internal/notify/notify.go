// Package notify tells the service manager how a role goes: that it serves, what
// it waits for, that it still lives, and that it stops. It speaks the protocol
// of sd_notify(3): datagrams to the socket that $NOTIFY_SOCKET names.
//
// The socket is opened once and held, so that a role that has run out of file
// descriptors still says that it lives and is not killed for it.
package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Manager is the service manager. A nil Manager is none: whatever is sent to it
// goes nowhere.
type Manager struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// Open connects to the manager that the environment names: nil when it names
// none. getenv is os.Getenv, but for tests.
func Open(getenv func(string) string) (*Manager, error) {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil, nil
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil, fmt.Errorf("notify: NOTIFY_SOCKET %q: want a path or an abstract name: %w", mesh.Quotable(socket), mesh.ErrInvalid)
	}
	watchdog, err := watchdogOf(getenv)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("notify: reach the service manager: %w", err)
	}
	return &Manager{conn, watchdog}, nil
}

// watchdogOf is how long the manager waits for a sign of life: 0 when it does
// not, or waits for one of another process.
func watchdogOf(getenv func(string) string) (time.Duration, error) {
	text := getenv("WATCHDOG_USEC")
	if pid := getenv("WATCHDOG_PID"); text == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec <= 0 || usec > int64(24*time.Hour/time.Microsecond) {
		return 0, fmt.Errorf("notify: WATCHDOG_USEC %q: want microseconds, at most a day: %w", mesh.Quotable(text), mesh.ErrInvalid)
	}
	return time.Duration(usec) * time.Microsecond, nil
}

// Watchdog is the longest time between two signs of life; 0: none are wanted.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}

// Close ends the connection.
func (m *Manager) Close() error {
	if m == nil {
		return nil
	}
	return m.conn.Close()
}

// send sends assignments such as READY=1 as one message. A manager that does
// not read makes it fail after a second rather than wait.
func (m *Manager) send(assignments ...string) error {
	if m == nil {
		return nil
	}
	err := m.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = m.conn.Write([]byte(strings.Join(assignments, "\n")))
	}
	if err != nil {
		return fmt.Errorf("notify: tell the service manager: %w", err)
	}
	return nil
}
