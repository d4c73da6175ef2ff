//go:build kube

package kube

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

// prefix marks namespaces and control groups as these tests', so that what a
// killed run left can be told from everybody else's.
const prefix = "mckube-"

// namespace is a network namespace by name.
type namespace string

func (n namespace) file() string { return filepath.Join("/run/netns", string(n)) }

// do runs f on a thread inside the namespace. Sockets that f opens and processes
// that it starts stay there; goroutines that it starts do not.
func (n namespace) do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- n.enter(f) // the thread ends with this goroutine unless it is unlocked
	}()
	return <-done
}

func (n namespace) enter(f func() error) error {
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

// dial opens a TCP connection from inside the namespace; addr is an IP address
// and a port.
func (n namespace) dial(ctx context.Context, _, addr string) (conn net.Conn, err error) {
	err = n.do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
		return err
	})
	return conn, err
}

// listen opens a TCP listener inside the namespace.
func (n namespace) listen(addr string) (ln net.Listener, err error) {
	err = n.do(func() error {
		ln, err = net.Listen("tcp", addr)
		return err
	})
	return ln, err
}

// feed runs a program in the namespace with text on standard input.
func (n namespace) feed(input, name string, args ...string) error {
	return n.do(func() error { return command(input, name, args...) })
}

func command(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ip runs lines of ip(8) in turn.
func ip(lines ...string) error {
	for _, line := range lines {
		if err := command("", "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// subnet is where the hosts are: TEST-NET-3, which is nobody's. Each pod has an
// address of its worker's part of pods, and each Service one of services.
var (
	subnet   = netip.MustParsePrefix("203.0.113.0/24")
	pods     = netip.MustParsePrefix("10.244.0.0/16")
	services = netip.MustParsePrefix("10.96.0.0/16")
)

func hostAddr(last byte) netip.Addr {
	b := subnet.Addr().As4()
	b[3] = last
	return netip.AddrFrom4(b)
}

// fabric joins the hosts of one run: a namespace with a bridge.
type fabric struct {
	run string // of this run's names
}

func (f fabric) name(host string) namespace { return namespace(prefix + f.run + "-" + host) }

func (f fabric) hub() namespace { return f.name("fabric") }

func (f fabric) create() error {
	return ip("netns add "+string(f.hub()), "-n "+string(f.hub())+" link add br0 up type bridge")
}

// attach makes a namespace for a host and joins it to the bridge. What it does
// not know the way to goes to the first address of the subnet, where nobody is.
func (f fabric) attach(host string, addr netip.Addr) (namespace, error) {
	n, hub := string(f.name(host)), string(f.hub())
	return namespace(n), ip(
		"netns add "+n,
		"-n "+n+" link set lo up",
		"link add "+host+" netns "+hub+" type veth peer name eth0 netns "+n,
		"-n "+hub+" link set "+host+" master br0 up",
		"-n "+n+" address add "+netip.PrefixFrom(addr, subnet.Bits()).String()+" dev eth0",
		"-n "+n+" link set eth0 up",
		"-n "+n+" route add default via "+hostAddr(1).String(),
	)
}

// detach pulls a host's plug.
func (f fabric) detach(host string) error {
	return ip("-n " + string(f.hub()) + " link delete " + host)
}

// forwards makes a host pass packets on.
func (n namespace) forwards() error {
	return n.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
}

// sweep removes namespaces with the processes in them, and control groups; all
// that begin with start.
func sweep(start string) error {
	files, err := filepath.Glob(filepath.Join("/run/netns", start+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		name := filepath.Base(file)
		errs = append(errs, endProcesses(name), ip("netns delete "+name))
	}
	return errors.Join(append(errs, removeGroups(start))...)
}

func endProcesses(name string) error {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return fmt.Errorf("ip netns pids %s: %w", name, err)
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
