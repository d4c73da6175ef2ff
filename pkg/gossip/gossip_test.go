package gossip

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// freeAddrs are loopback addresses with ports that are free for TCP and UDP.
func freeAddrs(t *testing.T, n int) []netip.AddrPort {
	t.Helper()
	out := make([]netip.AddrPort, n)
	for i := range out {
		out[i] = netip.MustParseAddrPort(freeport.Addr(t))
	}
	return out
}

type running struct {
	*Gossip
	end  context.CancelFunc
	done chan error
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.end()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

func run(t *testing.T, name string, at netip.AddrPort, keys [][]byte, peers ...netip.AddrPort) *running {
	t.Helper()
	var names []string
	for _, p := range peers {
		names = append(names, p.String())
	}
	r := &running{
		Gossip: &Gossip{
			Listen: at, Keys: keys, Facts: Facts{Server: mesh.NewServerID(), Name: name},
			Peers: func(context.Context) []string { return names },
		},
		done: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	up := make(chan struct{})
	go func() { r.done <- r.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-r.done:
		t.Fatal(err)
	}
	return r
}

func (r *running) names() string {
	var out []string
	for _, m := range r.Members() {
		out = append(out, m.Name+m.State)
	}
	return strings.Join(out, " ")
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestServersFindEachOtherAndTellFacts(t *testing.T) {
	at := freeAddrs(t, 3)
	old, fresh := [][]byte{key("old")}, [][]byte{key("fresh"), key("old")}
	a, b := run(t, "a", at[0], old, at...), run(t, "b", at[1], old, at...)
	wait(t, "a and b see each other", func() bool { return a.names() == "a b" && b.names() == "a b" })
	c := run(t, "c", at[2], old, at...)
	wait(t, "all see c", func() bool { return a.names() == "a b c" && b.names() == "a b c" && c.names() == "a b c" })

	f := b.Facts
	f.State = "!"
	if err := b.SetFacts(f); err != nil {
		t.Fatal(err)
	}
	wait(t, "a hears news of b", func() bool { return a.names() == "a b! c" })
	if err := b.SetFacts(Facts{Name: strings.Repeat("x", maxFacts)}); mesh.Kind(err) != mesh.ErrInvalid {
		t.Errorf("facts too long: %v", err)
	}

	// A new key comes in two steps, during which everybody understands everybody.
	for _, keys := range [][][]byte{{key("old"), key("fresh")}, fresh, {key("fresh")}} {
		for _, r := range []*running{a, b, c} {
			if err := r.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	changed := a.Changed()
	c.stop(t)
	wait(t, "a sees that c has gone", func() bool { return a.names() == "a b!" })
	select {
	case <-changed:
	default:
		t.Error("a was not told that something changed")
	}
	late := run(t, "c", at[2], [][]byte{key("fresh")}, at...)
	wait(t, "a sees c again, under the new key", func() bool { return a.names() == "a b! c" })
	for _, r := range []*running{a, b, late} {
		r.stop(t)
	}
}

// Without a choice, connections to any address of loopback come from 127.0.0.1,
// which the door of neither knows.
func TestAServerDialsFromTheAddressItListensOn(t *testing.T) {
	at := freeAddrs(t, 2)
	for i := range at {
		at[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 66, byte(1 + i)}), at[i].Port())
	}
	a, b := run(t, "a", at[0], [][]byte{key("one")}, at...), run(t, "b", at[1], [][]byte{key("one")}, at...)
	wait(t, "a and b see each other", func() bool { return a.names() == "a b" && b.names() == "a b" })
	a.stop(t)
	b.stop(t)
}

func TestWhoHasAnotherKeyIsNoticed(t *testing.T) {
	at := freeAddrs(t, 2)
	a := run(t, "a", at[0], [][]byte{key("one")}, at...)
	b := run(t, "b", at[1], [][]byte{key("other")}, at...)
	wait(t, "each notices the other", func() bool { return len(a.Foreign()) == 1 && len(b.Foreign()) == 1 })
	if a.names() != "a" || b.names() != "b" {
		t.Errorf("a sees %q, b sees %q", a.names(), b.names())
	}
	a.stop(t)
	b.stop(t)
}

func TestWhoIsNotConfiguredIsDropped(t *testing.T) {
	at := freeAddrs(t, 3)
	keys := [][]byte{key("k")}
	a, b := run(t, "a", at[0], keys, at[:2]...), run(t, "b", at[1], keys, at[:2]...)
	x := run(t, "x", at[2], keys, at...)
	wait(t, "a and b see each other", func() bool { return a.names() == "a b" && b.names() == "a b" })
	wait(t, "x sees somebody", func() bool { return len(x.Members()) > 1 })
	if a.names() != "a b" || b.names() != "a b" {
		t.Errorf("a sees %q, b sees %q", a.names(), b.names())
	}
	for _, r := range []*running{a, b, x} {
		r.stop(t)
	}
	if a.knows(netip.MustParseAddr("192.0.2.1")) {
		t.Error("packets of a stranger's address would be read")
	}
}
