package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace by name, which is a host of the lab.
type Namespace string

func (n Namespace) file() string { return filepath.Join("/run/netns", string(n)) }

// Do runs f on a thread inside the namespace. Sockets that f opens and processes
// that it starts stay there; goroutines that it starts do not.
func (n Namespace) Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- n.enter(f) // the thread ends with this goroutine unless it is unlocked
	}()
	return <-done
}

func (n Namespace) enter(f func() error) error {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open(n.file())
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", n, err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

// Dial opens a TCP connection from inside the namespace; addr is an IP address
// and a port.
func (n Namespace) Dial(ctx context.Context, _, addr string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
		return err
	})
	return conn, err
}

// Listen opens a TCP listener inside the namespace.
func (n Namespace) Listen(addr string) (ln net.Listener, err error) {
	err = n.Do(func() error {
		ln, err = net.Listen("tcp", addr)
		return err
	})
	return ln, err
}

// Feed runs a program in the namespace with text on standard input.
func (n Namespace) Feed(input, name string, args ...string) error {
	return n.Do(func() error { return Command(input, name, args...) })
}

// Command runs a program with text on standard input. An error has what the
// program printed.
func Command(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// IP runs lines of ip(8) in turn.
func IP(lines ...string) error {
	for _, line := range lines {
		if err := Command("", "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// Join gives a namespace an interface with an address, whose other end is a port
// of a bridge in the namespace hub.
func (n Namespace) Join(hub Namespace, bridge, port, device string, addr netip.Prefix) error {
	in, out := "-n "+string(n), "-n "+string(hub)
	return IP(
		"link add "+port+" netns "+string(hub)+" type veth peer name "+device+" netns "+string(n),
		out+" link set "+port+" master "+bridge+" up",
		in+" address add "+addr.String()+" dev "+device,
		in+" link set "+device+" up",
	)
}

// Make makes the namespace, which has no other interface than that to itself.
func (n Namespace) Make() error {
	return IP("netns add "+string(n), "-n "+string(n)+" link set lo up")
}

// Remove removes the namespace with the processes in it.
func (n Namespace) Remove() error {
	return errors.Join(n.endProcesses(), IP("netns delete "+string(n)))
}

func (n Namespace) endProcesses() error {
	out, err := exec.Command("ip", "netns", "pids", string(n)).Output()
	if err != nil {
		return fmt.Errorf("ip netns pids %s: %w", n, err)
	}
	var errs []error
	for word := range strings.FieldsSeq(string(out)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Sweep removes every namespace whose name begins with prefix.
func Sweep(prefix string) error {
	files, err := filepath.Glob(filepath.Join("/run/netns", prefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, Namespace(filepath.Base(file)).Remove())
	}
	return errors.Join(errs...)
}
