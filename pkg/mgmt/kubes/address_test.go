package kubes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const patience = 30 * time.Second

func TestAnAddressGoesDownAfterThreeBadTries(t *testing.T) {
	t.Parallel()
	broken := errors.New("kubes: no connection: refused: " + strings.Repeat("x", 2*maxWhy))
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	k := look{KubeAddress: mesh.KubeAddress{Host: "203.0.113.1", Port: 443}}
	for i, step := range []struct {
		err    error
		up     bool
		turned bool
		since  int // the step of the last turn
	}{
		{broken, false, false, 0}, {broken, false, false, 0},
		{nil, true, true, 2}, {nil, true, false, 2},
		{broken, true, false, 2}, {broken, true, false, 2}, {nil, true, false, 2},
		{broken, true, false, 2}, {broken, true, false, 2}, {broken, false, true, 9},
		{broken, false, false, 9}, {nil, true, true, 11},
	} {
		at := func(i int) time.Time { return now.Add(time.Duration(i) * time.Minute) }
		turned := k.note(at(i), step.err)
		if k.Up != step.up || turned != step.turned || !k.Since.Equal(at(step.since)) || !k.Tried.Equal(at(i)) {
			t.Errorf("step %d: %+v, turned %v", i, k, turned)
		}
		if (k.Why == "") != k.Up || len(k.Why) > maxWhy {
			t.Errorf("step %d: because of %q", i, k.Why)
		}
	}
}

// port is somebody who accepts connections while open.
type port struct {
	t    *testing.T
	addr netip.AddrPort
	ln   net.Listener
}

func openPort(t *testing.T) *port {
	t.Helper()
	p := &port{t: t}
	p.open("127.0.0.1:0")
	p.addr = netip.MustParseAddrPort(p.ln.Addr().String())
	t.Cleanup(func() { _ = p.ln.Close() })
	return p
}

func (p *port) open(addr string) {
	p.t.Helper()
	ln, err := new(net.ListenConfig).Listen(p.t.Context(), "tcp", addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.ln = ln
}

func (p *port) reopen() { p.open(p.addr.String()) }

func (p *port) close() {
	if err := p.ln.Close(); err != nil {
		p.t.Error(err)
	}
}

func (p *port) address() mesh.KubeAddress {
	return mesh.KubeAddress{Host: p.addr.Addr().String(), Port: int(p.addr.Port()), Source: mesh.AddressBalancer}
}

// names are a resolver.
type names struct {
	mu sync.Mutex // guards of
	of map[string][]netip.Addr
}

func (n *names) set(name string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string][]netip.Addr{}
	}
	n.of[name] = nil
	for _, ip := range ips {
		n.of[name] = append(n.of[name], netip.MustParseAddr(ip))
	}
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ips := n.of[host]; len(ips) > 0 {
		return append([]netip.Addr(nil), ips...), nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
}

func runs(t *testing.T, l *Lookout) *Lookout {
	t.Helper()
	l.Every = 20 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// seen waits until what is seen of a cluster is as wanted.
func seen(t *testing.T, l *Lookout, id mesh.KubeID, what string, ok func([]mesh.KubeAddress) bool) []mesh.KubeAddress {
	t.Helper()
	late := time.After(patience)
	for {
		changed := l.Changed()
		got := l.Seen(id)
		if ok(got) {
			return got
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s: never: %+v", what, l.Seen(id))
		}
	}
}

func ups(want string) func([]mesh.KubeAddress) bool {
	return func(all []mesh.KubeAddress) bool {
		var got strings.Builder
		for _, a := range all {
			switch {
			case a.Tried.IsZero():
				got.WriteByte('?')
			case a.Up:
				got.WriteByte('u')
			default:
				got.WriteByte('d')
			}
		}
		return got.String() == want
	}
}

func TestAddressesFollowWhoAnswers(t *testing.T) {
	t.Parallel()
	a, b := openPort(t), openPort(t)
	l := runs(t, &Lookout{})
	l.Watch("k", []mesh.KubeAddress{a.address(), b.address()}, nil)
	seen(t, l, "k", "both answer", ups("uu"))
	b.close()
	got := seen(t, l, "k", "one has gone", ups("ud"))
	if !strings.Contains(got[1].Why, "refused") || strings.Contains(got[1].Why, strconv.Itoa(int(b.addr.Port()))) {
		t.Errorf("because of %q", got[1].Why)
	}
	b.reopen()
	seen(t, l, "k", "it is back", ups("uu"))
	l.Watch("k", []mesh.KubeAddress{b.address()}, nil)
	if got := l.Seen("k"); len(got) != 1 || !got[0].Up {
		t.Errorf("what was seen is forgotten: %+v", got)
	}
	l.Watch("k", nil, nil)
	if got := l.Seen("k"); len(got) != 0 {
		t.Errorf("still looked at: %+v", got)
	}
}

// Whoever takes the office goes on from what was written down: an address that is
// up stays so until three tries say otherwise.
func TestALookoutBeginsWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	gone := openPort(t)
	gone.close()
	was := gone.address()
	was.Up, was.Since, was.Tried = true, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	l := &Lookout{}
	l.Watch("k", []mesh.KubeAddress{gone.address()}, []mesh.KubeAddress{was})
	if got := l.Seen("k"); !got[0].Up || !got[0].Since.Equal(was.Since) {
		t.Fatalf("it begins with %+v", got)
	}
	began := time.Now()
	runs(t, l)
	seen(t, l, "k", "down", ups("d"))
	if took := time.Since(began); took < 2*18*time.Millisecond {
		t.Errorf("down after %v", took)
	}
}

// An address that swallows packets holds up no other, and none of another cluster.
func TestASilentAddressHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	ok, silent := openPort(t), mesh.KubeAddress{Host: "203.0.113.1", Port: 443, Source: mesh.AddressBalancer}
	l := runs(t, &Lookout{Time: patience, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == silent.HostPort() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	l.Watch("a", []mesh.KubeAddress{silent, ok.address()}, nil)
	l.Watch("b", []mesh.KubeAddress{silent}, nil)
	seen(t, l, "a", "the other answers", ups("?u"))
	l.Watch("c", []mesh.KubeAddress{ok.address()}, nil)
	seen(t, l, "c", "so does another cluster's", ups("u"))
	ok.close()
	seen(t, l, "a", "and goes on being looked at", ups("?d"))
}

func TestASilentAddressIsDown(t *testing.T) {
	t.Parallel()
	l := runs(t, &Lookout{Time: 10 * time.Millisecond, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("dial tcp 192.0.2.9:1234: %w", ctx.Err())
	}})
	l.Watch("k", []mesh.KubeAddress{{Host: "203.0.113.1", Port: 443, Source: mesh.AddressBalancer}}, nil)
	if got := seen(t, l, "k", "down", ups("d")); got[0].Why != "no connection: no answer in time" {
		t.Errorf("because of %q", got[0].Why)
	}
}

// A name is told instead of the addresses while it leads to one that is up.
func TestANameFollowsTheDNSAndTheAddresses(t *testing.T) {
	t.Parallel()
	a, dns := openPort(t), &names{}
	name := mesh.KubeAddress{Host: "in.example.net", Port: int(a.addr.Port()), Source: mesh.AddressName}
	l := runs(t, &Lookout{Resolver: dns})
	l.Watch("k", []mesh.KubeAddress{a.address(), name}, nil)
	got := seen(t, l, "k", "nobody made the record", func(all []mesh.KubeAddress) bool { return all[0].Up && strings.Contains(all[1].Why, "no such host") })
	if strings.Contains(got[1].Why, "192.0.2.53") {
		t.Errorf("the resolver is named: %q", got[1].Why)
	}
	dns.set("in.example.net", "198.51.100.7")
	seen(t, l, "k", "it leads elsewhere", func(all []mesh.KubeAddress) bool { return strings.Contains(all[1].Why, "leads to 198.51.100.7") })
	dns.set("in.example.net", "198.51.100.7", "::ffff:127.0.0.1")
	seen(t, l, "k", "it leads to the address", ups("uu"))
	a.close()
	seen(t, l, "k", "the address has gone", ups("dd"))
	a.reopen()
	seen(t, l, "k", "all is well", ups("uu"))
}

func TestANameLeadsToABalancerThatIsANameItself(t *testing.T) {
	t.Parallel()
	dns := &names{}
	dns.set("lb.cloud.example", "198.51.100.7", "198.51.100.8")
	dns.set("in.example.net", "198.51.100.8")
	l := &Lookout{Resolver: dns}
	to := []mesh.KubeAddress{{Host: "lb.cloud.example", Port: 443}}
	if err := l.leads(t.Context(), "in.example.net", to); err != nil {
		t.Error(err)
	}
	dns.set("lb.cloud.example")
	if err := l.leads(t.Context(), "in.example.net", to); err == nil || !strings.Contains(err.Error(), "look up lb.cloud.example") {
		t.Errorf("a balancer that is not known: %v", err)
	}
}
