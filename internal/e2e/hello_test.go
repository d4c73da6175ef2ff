package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// chopped changes how the first write, a ClientHello, is framed: into TLS
// records of at most record bytes, and segments of at most segment bytes. Zero
// leaves either as it is. What is said stays the same.
type chopped struct {
	net.Conn
	record, segment int
	pause           time.Duration // after the first segment
	begun           bool
}

func (c *chopped) Write(p []byte) (int, error) {
	if c.begun {
		return c.Conn.Write(p)
	}
	c.begun = true
	out := p
	if c.record > 0 {
		out = reframe(p, c.record)
	}
	for i, rest := 0, out; len(rest) > 0; i++ {
		n := len(rest)
		if c.segment > 0 {
			n = min(n, c.segment)
		}
		if _, err := c.Conn.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
		if i == 0 && c.pause > 0 {
			<-time.After(c.pause)
		}
	}
	return len(p), nil
}

// reframe cuts one handshake record into several.
func reframe(record []byte, size int) []byte {
	head, body := record[:3], record[5:]
	var out []byte
	for len(body) > 0 {
		n := min(size, len(body))
		out = append(out, head...)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

func TestTheHelloMayComeInPieces(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, echo := addDevice(t, m, "pieces"), echoServer(t)
	tests := []struct {
		name  string
		shape chopped
	}{
		{"records of 1 byte", chopped{record: 1}},
		{"records of 3 bytes", chopped{record: 3}},
		{"records of 7 bytes", chopped{record: 7}},
		{"records of 100 bytes", chopped{record: 100}},
		{"records of 1200 bytes", chopped{record: 1200}},
		{"segments of 1 byte", chopped{segment: 1}},
		{"records and segments of 1 byte", chopped{record: 1, segment: 1}},
		{"1 byte, a pause, the rest byte by byte", chopped{segment: 1, pause: 300 * time.Millisecond}},
		{"1000 bytes, a pause, the rest", chopped{segment: 1000, pause: 300 * time.Millisecond}},
		{"a segment of 1460 bytes, a pause, the rest", chopped{segment: 1460, pause: 300 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := dial(t.Context(), m.EntryAddresses[0])
			if err != nil {
				t.Fatal(err)
			}
			shape := tt.shape
			shape.Conn = raw
			tun, err := c.over(t.Context(), &shape, echo)
			if err != nil {
				t.Fatal(err)
			}
			defer tun.Close()
			if err := tun.echo(setupTime); err != nil {
				t.Error(err)
			}
		})
	}
}

// refuses checks that the entry closes a connection after first, having said
// nothing but perhaps an alert.
func refuses(t *testing.T, entry string, first []byte) {
	t.Helper()
	conn, err := dial(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(setupTime)); err != nil {
		t.Fatal(err)
	}
	_, werr := conn.Write(first) // it may close before all is written
	got, err := io.ReadAll(conn)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		t.Errorf("it is still open after %v", setupTime)
	}
	if len(got) > 7 { // an alert record
		t.Errorf("it answered %d bytes: %q (%v)", len(got), got, werr)
	}
}

func TestWhatIsNoHelloForADeviceIsClosed(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	for name, first := range map[string][]byte{
		"HTTP":                 []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
		"SSH":                  []byte("SSH-2.0-OpenSSH_9.9\r\n"),
		"64 KiB of nothing":    make([]byte, 64<<10),
		"no server name":       hello(t, ""),
		"a name of nobody":     hello(t, "example.com"),
		"an unknown label":     hello(t, "aaaaaaaaaaaaaaaa.demo.test"),
		"an address":           hello(t, "127.0.0.1"),
		"a path":               hello(t, "../../auth.demo.test"),
		"the suffix itself":    hello(t, "demo.test"),
		"two labels below":     hello(t, "a.b.demo.test"),
		"a star":               hello(t, "*.demo.test"),
		"the beginning of one": hello(t, "x.demo.test")[:100],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, m.EntryAddresses[0], first)
		})
	}
}

func TestTheNameIsFoldedInOneWay(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, echo := addDevice(t, m, "folded"), echoServer(t)
	c.link.ServerName = upper(c.link.ServerName)
	raw, err := dial(t.Context(), m.EntryAddresses[0])
	if err != nil {
		t.Fatal(err)
	}
	tun, err := c.over(t.Context(), raw, echo)
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	if err := tun.echo(setupTime); err != nil {
		t.Error(err)
	}
}

func upper[S ~string](s S) S { return S(bytes.ToUpper([]byte(s))) }

// hello is what a client for that server name sends first. The name goes in as
// it is, also where crypto/tls would leave it out.
func hello(t *testing.T, name string) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	// As many letters as the name, for the name to be put in their place.
	letters := bytes.Repeat([]byte("q"), len(name))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(there, &tls.Config{ServerName: string(letters), InsecureSkipVerify: true}).HandshakeContext(context.WithoutCancel(t.Context())) // fails when here is closed
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(here, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(here, body); err != nil {
		t.Fatal(err)
	}
	_ = here.Close() // ends the handshake
	<-done
	out := append(head, body...)
	if len(name) > 0 && bytes.Count(out, letters) != 1 {
		t.Fatal(fmt.Errorf("the hello does not hold the name once"))
	}
	return bytes.Replace(out, letters, []byte(name), min(len(name), 1))
}
