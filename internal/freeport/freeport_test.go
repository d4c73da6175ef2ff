package freeport

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// poolVariable makes the test binary a process that claims of the pool it names,
// says what it got, and ends with its input.
const poolVariable = "FREEPORT_TEST_POOL"

func TestMain(m *testing.M) {
	if file := os.Getenv(poolVariable); file != "" {
		os.Exit(another(file))
	}
	os.Exit(m.Run())
}

func another(file string) int {
	addrs, err := small(file).claim(localhost, 5)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, a := range addrs {
		fmt.Println(a)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent lets go
	return 0
}

// small has so few ports that a few claims leave none, others for each file, and
// none that anybody is given outside of this test.
func small(file string) pool {
	h := fnv.New32a()
	h.Write([]byte(file)) // never fails
	first := 5000 + 20*int(h.Sum32()%200)
	return pool{file, first, first + 19}
}

// all claims one by one until there are no more.
func all(t *testing.T, p pool) []netip.AddrPort {
	t.Helper()
	var out []netip.AddrPort
	for {
		got, err := p.claim(localhost, 1)
		if errors.Is(err, mesh.ErrUnavailable) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got...)
	}
}

func TestAProcessClaimsAPortOnce(t *testing.T) {
	p := small(filepath.Join(t.TempDir(), "ports"))
	got, err := p.claim(localhost, 5)
	if err != nil || len(got) != 5 {
		t.Fatal(got, err)
	}
	if _, err := p.claim(localhost, 20); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("more than there are: %v", err)
	}
	got = append(got, all(t, p)...)
	slices.SortFunc(got, netip.AddrPort.Compare)
	if n := len(slices.Compact(got)); n != len(got) || n < 15 { // somebody else may listen on some
		t.Errorf("%d claims of %d ports", len(got), n)
	}
}

func TestWhatAProcessHasClaimedNoOtherGets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), poolVariable+"="+file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var theirs []netip.AddrPort
	for lines := bufio.NewScanner(out); len(theirs) < 5 && lines.Scan(); {
		theirs = append(theirs, netip.MustParseAddrPort(lines.Text()))
	}
	for _, a := range all(t, small(file)) {
		if slices.Contains(theirs, a) {
			t.Errorf("%v is claimed twice", a)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	in.Close()
	freed := all(t, small(file))
	for _, a := range theirs {
		if !slices.Contains(freed, a) {
			t.Errorf("%v stays claimed after the end of its process", a)
		}
	}
	if len(theirs) != 5 {
		t.Errorf("the other process claimed %v", theirs)
	}
}

func TestAPortThatSomebodyHasIsNotClaimed(t *testing.T) {
	for name, listen := range map[string]func(addr string) (io.Closer, error){
		"TCP":                func(a string) (io.Closer, error) { return net.Listen("tcp4", a) },
		"UDP":                func(a string) (io.Closer, error) { return net.ListenPacket("udp4", a) },
		"TCP, any address":   func(a string) (io.Closer, error) { return net.Listen("tcp4", strings.Replace(a, "127.0.0.1", "", 1)) },
		"TCP, both families": func(a string) (io.Closer, error) { return net.Listen("tcp", strings.Replace(a, "127.0.0.1", "", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			busy := netip.MustParseAddrPort(Addr(t))
			c, err := listen(busy.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := pool{filepath.Join(t.TempDir(), "ports"), int(busy.Port()), int(busy.Port())}
			if got, err := p.claim(localhost, 1); !errors.Is(err, mesh.ErrUnavailable) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestNoOutgoingConnectionGetsAPort(t *testing.T) {
	for name, c := range map[string]struct {
		table       string
		first, last int
	}{
		"as Linux has it":            {"32768\t60999\n", 10000, 32767},
		"most are below":             {"10240\t50000\n", 50001, 65535},
		"a low range":                {"1024\t5000\n", 10000, 65535},
		"all of them":                {"1024\t65535\n", 10000, 65535},
		"the system says no numbers": {"", 10000, 65535},
	} {
		t.Run(name, func(t *testing.T) {
			if first, last := outside(c.table); first != c.first || last != c.last {
				t.Errorf("%d to %d, want %d to %d", first, last, c.first, c.last)
			}
		})
	}
}

func TestWhatCannotBeClaimed(t *testing.T) {
	if got, err := Claim(netip.MustParseAddr("192.0.2.1"), 1); err == nil {
		t.Errorf("an address that this machine does not have: %v", got)
	}
	if got, err := (pool{t.TempDir(), 20000, 20100}).claim(localhost, 1); err == nil {
		t.Errorf("a folder where the file is: %v", got)
	}
}

// The side that closes first keeps the connection in TIME-WAIT.
func TestAServerReturnsToItsAddress(t *testing.T) {
	addr := Addr(t)
	for range 3 {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if _, err := io.Copy(io.Discard, client); err != nil {
			t.Error(err)
		}
		client.Close()
		ln.Close()
	}
}
