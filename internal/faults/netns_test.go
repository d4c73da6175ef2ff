//go:build faults

package faults

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

// prefix marks network namespaces as the lab's, so that what a killed run left
// can be told from everybody else's.
const prefix = "mcfaults-"

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

// dial opens a TCP connection from inside the namespace; addr is an IP address
// and a port.
func (n namespace) dial(ctx context.Context, addr string) (conn net.Conn, err error) {
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

// internet joins the hosts: a namespace with a bridge and the rules by which
// packets vanish on it.
const internet = namespace(prefix + "internet")

// subnet is where the hosts are: TEST-NET-3, which is nobody's.
var subnet = netip.MustParsePrefix("203.0.113.0/24")

// privateNet is the network among the management servers.
var privateNet = netip.MustParsePrefix("10.77.0.0/24")

// The rules see what passes the bridge and drop it without a word, both ways;
// ARP goes on, so that a cut looks like a black hole and not like a pulled plug.
const rules = `table bridge lab {
	set hosts { type ipv4_addr; }
	set pairs { type ipv4_addr . ipv4_addr; }
	chain cut {
		type filter hook forward priority 0; policy accept;
		ip saddr @hosts drop
		ip daddr @hosts drop
		ip saddr . ip daddr @pairs drop
	}
}
`

func makeInternet() error {
	if err := command("", "ip", "netns", "add", string(internet)); err != nil {
		return err
	}
	for _, bridge := range []string{"br0", "br1"} {
		if err := command("", "ip", "-n", string(internet), "link", "add", bridge, "up", "type", "bridge"); err != nil {
			return err
		}
	}
	return internet.feed(rules, "nft", "-f", "-")
}

// attach makes a namespace for a host and joins it to the bridge.
func attach(name string, addr netip.Addr) (namespace, error) {
	n := namespace(prefix + name)
	inside := netip.PrefixFrom(addr, subnet.Bits()).String()
	for _, line := range []string{
		"netns add " + string(n),
		"-n " + string(n) + " link set lo up",
		"link add " + name + " netns " + string(internet) + " type veth peer name eth0 netns " + string(n),
		"-n " + string(internet) + " link set " + name + " master br0 up",
		"-n " + string(n) + " address add " + inside + " dev eth0",
		"-n " + string(n) + " link set eth0 up",
	} {
		if err := command("", "ip", strings.Fields(line)...); err != nil {
			return n, err
		}
	}
	return n, nil
}

// attachPrivate gives a host an address on the servers' private network.
func (n namespace) attachPrivate(name string, addr netip.Addr) error {
	for _, line := range []string{
		"link add p-" + name + " netns " + string(internet) + " type veth peer name eth1 netns " + string(n),
		"-n " + string(internet) + " link set p-" + name + " master br1 up",
		"-n " + string(n) + " address add " + netip.PrefixFrom(addr, privateNet.Bits()).String() + " dev eth1",
		"-n " + string(n) + " link set eth1 up",
	} {
		if err := command("", "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes every namespace of the lab, with the processes in it.
func sweep() error {
	files, err := filepath.Glob(filepath.Join("/run/netns", prefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		name := filepath.Base(file)
		errs = append(errs, endProcesses(name), command("", "ip", "netns", "delete", name))
	}
	return errors.Join(errs...)
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
