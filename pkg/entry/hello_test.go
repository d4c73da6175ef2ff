package entry_test

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/entry"
	"github.com/meshctl/meshctl/pkg/entry/entrytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// withCore starts an entry and an echoing core that name leads to.
func withCore(t testing.TB, change ...func(*entry.Server)) (*gate, *core) {
	t.Helper()
	g := startEntry(t, change...)
	c := startCore(t, g.ca, nil)
	g.route.put(mesh.Route{Name: name, Device: mesh.NewDeviceID()}, c.target)
	return g, c
}

// E-01: a hello spread over several TLS records leads where the same hello in
// one record leads, and reaches the core as it was sent.
func TestAHelloInManyRecordsIsRouted(t *testing.T) {
	g, c := withCore(t)
	for _, size := range []int{1, 3, 7, 100, 1200, 16384} {
		b := entrytest.Records(entrytest.Hello(string(name), 1506), size)
		conn := dial(t, g.addr)
		send(t, conn, b)
		wantBack(t, conn, b)
		conn.Close()
	}
	for _, h := range c.seen() {
		if h.ServerName != string(name) || h.Device == "" || h.Trace == "" || h.Client.IsValid() {
			t.Errorf("header %+v: want name, device, trace and no client address", h)
		}
	}
}

// E-02: no decision is taken before the hello is complete, however it is cut.
func TestAHelloInManySegmentsIsRouted(t *testing.T) {
	g, _ := withCore(t)
	const runs = 25
	b := hello(name)
	var wg sync.WaitGroup
	for _, first := range []int{1, 5, 1000, 1460} {
		for range runs {
			wg.Go(func() {
				conn := dial(t, g.addr)
				defer conn.Close()
				pause := time.NewTimer(20 * time.Millisecond)
				_, err1 := conn.Write(b[:first])
				<-pause.C
				_, err2 := conn.Write(b[first:])
				got := make([]byte, len(b))
				if _, err := io.ReadFull(conn, got); err1 != nil || err2 != nil || err != nil || !slices.Equal(got, b) {
					t.Errorf("%d bytes first: %v, %v, %v", first, err1, err2, err)
				}
			})
		}
	}
	wg.Wait()
	conn := dial(t, g.addr)
	for i := range b {
		send(t, conn, b[i:i+1])
	}
	wantBack(t, conn, b)
}

// E-03: up to 16 KiB is routed, more is refused with a reason.
func TestLargeHellos(t *testing.T) {
	g, _ := withCore(t)
	for _, size := range []int{5_500, 16_000, 16_384} {
		b := entrytest.Records(entrytest.Hello(string(name), size), 16_384)
		conn := dial(t, g.addr)
		send(t, conn, b)
		wantBack(t, conn, b)
	}
	for i, size := range []int{16_600, 41_700, 65_000} {
		conn := dial(t, g.addr)
		// The entry may reset before all is written.
		_, _ = conn.Write(entrytest.Records(entrytest.Hello(string(name), size), 16_384))
		wantClosed(t, conn)
		g.wantEnded(t, entry.HelloTooBig, i+1)
	}
}

// E-04: who sends nothing, half a hello, or a byte now and then, is closed at
// the one deadline, and does not keep others out.
func TestSilentClientsEndAtTheDeadline(t *testing.T) {
	g, _ := withCore(t, func(s *entry.Server) { s.HelloTimeout, s.Sessions = 3*time.Second, 1 })
	conn := g.open(t, name)
	goroutines, files := usage(t)
	const n = 300
	b := hello(name)
	start := time.Now()
	var conns []*net.TCPConn
	for i := range n {
		c := dial(t, g.addr)
		conns = append(conns, c)
		send(t, c, b[:i%3*700])
	}
	slow := dial(t, g.addr)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range b {
			<-tick.C
			if _, err := slow.Write(b[i : i+1]); err != nil {
				return
			}
		}
	})
	for range 20 {
		g.open(t, name).Close()
	}
	g.wantEnded(t, entry.HelloTimeout, n+1)
	if took := time.Since(start); took < 2900*time.Millisecond {
		t.Errorf("closed after %v, before the deadline", took)
	}
	wg.Wait()
	for _, c := range append(conns, slow) {
		c.Close()
	}
	wantUsage(t, goroutines, files, 4)
	send(t, conn, []byte("still here"))
	wantBack(t, conn, []byte("still here"))
}

// The connection that waited longest makes room, never the newcomer.
func TestManySilentClientsDoNotKeepOthersOut(t *testing.T) {
	g, _ := withCore(t, func(s *entry.Server) { s.HelloTimeout, s.Limits.Hellos = time.Minute, 10 })
	for range 30 {
		dial(t, g.addr)
	}
	g.wantEnded(t, entry.LimitHellos, 20)
	g.open(t, name)
	g.wantEnded(t, entry.LimitHellos, 21)
}

// E-05: first bytes that are no TLS end at once, without a byte in return.
func TestWhatIsNotTLSIsClosed(t *testing.T) {
	g, c := withCore(t)
	tests := []struct {
		name   string
		bytes  string
		reason entry.Reason
	}{
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", entry.NotTLS},
		{"an SSH banner", "SSH-2.0-OpenSSH_9.2\r\n", entry.NotTLS},
		{"a Postgres SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", entry.NotTLS},
		{"SSLv2", "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", entry.NotTLS},
		{"QUIC", "\xc3\x00\x00\x00\x01\x08" + strings.Repeat("\x00", 40), entry.NotTLS},
		{"a TLS alert", "\x15\x03\x01\x00\x02\x01\x00", entry.NotTLS},
		{"a PROXY header from a stranger", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", entry.NotTLS},
		{"64 KiB of nothing", strings.Repeat("\x00", 64<<10), entry.NotTLS},
		{"TLS without a name", string(entrytest.Records(noName(t), 16384)), entry.NoSNI},
		{"nothing", "", entry.ClientGone},
	}
	before := map[entry.Reason]int{}
	for _, tt := range tests {
		conn := dial(t, g.addr)
		// The entry may reset before all is written.
		_, _ = conn.Write([]byte(tt.bytes))
		if tt.bytes == "" {
			conn.Close()
		} else {
			wantClosed(t, conn)
		}
		before[tt.reason]++
		eventually(t, tt.name+" ends as "+string(tt.reason), func() bool { return g.ended(t, tt.reason) == before[tt.reason] })
	}
	if len(c.seen()) != 0 || g.route.count() != 0 {
		t.Errorf("%d streams and %d lookups came of it", len(c.seen()), g.route.count())
	}
}

// noName is what Go's client sends to an IP address: a hello without a name.
func noName(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() // fails: only its first bytes are wanted
	})
	defer wg.Wait()
	defer server.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// E-06: what is looked up is folded as what is written.
func TestNamesAreFolded(t *testing.T) {
	g, c := withCore(t)
	for _, n := range []string{"ABCDEFGH.A.Example.NET", "abcdefgh.a.example.net.", string(name)} {
		b := entrytest.Records(entrytest.Hello(n, 0), 16384)
		conn := dial(t, g.addr)
		send(t, conn, b)
		wantBack(t, conn, b)
	}
	for _, h := range c.seen() {
		if h.ServerName != string(name) {
			t.Errorf("the core saw %q, want %q", h.ServerName, name)
		}
	}
}

// E-07: a hostile name is refused before anything is asked, and leaves exactly
// one line in the log.
func TestHostileNames(t *testing.T) {
	g, _ := withCore(t)
	names := []string{
		"a\x00b.a.example.net", "x.a.example.net\r\nlevel=ERROR msg=forged", "../../auth/.a.example.net",
		strings.Repeat("a", 300) + ".a.example.net", "169.254.169.254", "127.0.0.1", "::1", "*.a.example.net",
		"localhost", "-x.a.example.net", "x..a.example.net", ".a.example.net", "п.a.example.net", " ",
	}
	for i, n := range names {
		conn := dial(t, g.addr)
		send(t, conn, entrytest.Records(entrytest.Hello(n, 0), 16384))
		wantClosed(t, conn)
		eventually(t, "the end of "+n, func() bool { return len(g.log.with(`msg="connection ended"`)) == i+1 })
	}
	if bad, none := g.ended(t, entry.BadSNI), g.ended(t, entry.NoSNI); bad+none != len(names) {
		t.Errorf("%d ended as bad_sni and %d as no_sni, want %d in all", bad, none, len(names))
	}
	if lines := g.log.with(""); len(lines) != len(names)+1 { // and "entry started"
		t.Errorf("%d log lines for %d connections", len(lines)-1, len(names))
	}
	if g.route.count() != 0 {
		t.Errorf("%d lookups were made", g.route.count())
	}
}

func TestNamesOutsideTheSuffixesAreNotAskedFor(t *testing.T) {
	g, _ := withCore(t)
	for _, n := range []string{"abcdefgh.b.example.net", "example.net", "x.abcdefgh.a.example.net", "a.example.net.evil.org"} {
		conn := dial(t, g.addr)
		send(t, conn, entrytest.Records(entrytest.Hello(n, 0), 16384))
		wantClosed(t, conn)
	}
	g.wantEnded(t, entry.UnknownSuffix, 4)
	conn := dial(t, g.addr)
	send(t, conn, hello("unknown.a.example.net"))
	wantClosed(t, conn)
	g.wantEnded(t, entry.NoRoute, 1)
	if g.route.count() != 1 {
		t.Errorf("%d lookups, want 1", g.route.count())
	}
}

func TestNothingIsServedBeforeTheFirstConfiguration(t *testing.T) {
	g, _ := withCore(t, func(s *entry.Server) { s.Settings = new(entry.Settings) })
	if err := g.Ready(t.Context()); err == nil || g.Serving() {
		t.Error("ready without a configuration")
	}
	conn := dial(t, g.addr)
	send(t, conn, hello(name))
	wantClosed(t, conn)
	g.wantEnded(t, entry.UnknownSuffix, 1)
	g.Settings.Apply([]mesh.ServerName{suffix}, 0, false)
	if err := g.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	g.open(t, name)
}
