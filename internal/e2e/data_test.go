package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"
)

const bulk = 64 << 20

// noise is a stream of size bytes that looks random; equal seeds are equal.
func noise(seed uint64, size int64) io.Reader {
	var key [32]byte
	key[0] = byte(seed)
	return io.LimitReader(rand.NewChaCha8(key), size)
}

func sum(r io.Reader) ([]byte, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return h.Sum(nil), err
}

// exchange sends noise and checks what comes back, both at once, and
// half-closes its side.
func exchange(c interface {
	io.ReadWriter
	CloseWrite() error
}, send, expect uint64) error {
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, noise(send, bulk))
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := sum(c)
	err = errors.Join(err, <-sent)
	if err != nil {
		return err
	}
	if want, err := sum(noise(expect, bulk)); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("the bytes are not those that were sent (%v)", err)
	}
	return nil
}

func TestBulkBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	origin := make(chan error, 1)
	dest := serve(t, "127.0.0.2:0", func(c *net.TCPConn) { origin <- exchange(c, 2, 1) })
	tun := addDevice(t, m, "bulk").mustConnect(t, m.EntryAddresses[0], dest)
	begin := time.Now()
	if err := exchange(tun, 1, 2); err != nil {
		t.Errorf("client: %v", err)
	}
	if err := <-origin; err != nil {
		t.Errorf("destination: %v", err)
	}
	t.Logf("64 MiB each way in %v", time.Since(begin))
}

func TestHalfCloseIsHalfClose(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c := addDevice(t, m, "half")
	const answer = 1 << 20
	t.Run("after the client's end the destination still sends", func(t *testing.T) {
		dest := serve(t, "127.0.0.2:0", func(conn *net.TCPConn) {
			if got, err := io.ReadAll(conn); err != nil || string(got) != "question" {
				t.Errorf("the destination got %q, %v", got, err)
			}
			if _, err := io.Copy(conn, noise(3, answer)); err != nil {
				t.Errorf("answer: %v", err)
			}
		})
		tun := c.mustConnect(t, m.EntryAddresses[0], dest)
		if _, err := io.WriteString(tun, "question"); err != nil {
			t.Fatal(err)
		}
		if err := tun.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := sum(tun)
		if want, _ := sum(noise(3, answer)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the answer is wrong: %v", err)
		}
	})
	t.Run("after the destination's end the client still sends", func(t *testing.T) {
		received := make(chan string, 1)
		dest := serve(t, "127.0.0.2:0", func(conn *net.TCPConn) {
			if err := conn.CloseWrite(); err != nil {
				t.Error(err)
			}
			got, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("destination: %v", err)
			}
			received <- string(got)
		})
		tun := c.mustConnect(t, m.EntryAddresses[0], dest)
		if got, err := io.ReadAll(tun); err != nil || len(got) > 0 {
			t.Fatalf("read %q, %v: want a clean end", got, err)
		}
		if _, err := io.WriteString(tun, "too late?"); err != nil {
			t.Fatal(err)
		}
		if err := tun.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := <-received; got != "too late?" {
			t.Errorf("the destination got %q", got)
		}
	})
	t.Run("a reset of the destination is no clean end", func(t *testing.T) {
		dest := serve(t, "127.0.0.2:0", func(conn *net.TCPConn) {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			if err := conn.SetLinger(0); err != nil {
				t.Error(err)
			}
		})
		tun := c.mustConnect(t, m.EntryAddresses[0], dest)
		if _, err := io.WriteString(tun, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(tun); err == nil {
			t.Error("the reset looks like a clean end")
		}
	})
}

func TestTwoHundredConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, echo := addDevice(t, m, "many"), echoServer(t)
	const n = 200
	begin := time.Now()
	tunnels := openMany(t, c, m.EntryAddresses, echo, n)
	t.Logf("%d tunnels opened in %v", n, time.Since(begin))
	for i, tun := range tunnels { // all are open, and each has its own bytes
		if err := tun.echo(setupTime); err != nil {
			t.Errorf("tunnel %d: %v", i, err)
		}
	}
	for _, tun := range tunnels {
		_ = tun.Close() // the echo was all that mattered
	}
}

// openMany opens n tunnels, a few at once, through the entries in turn.
func openMany(t *testing.T, c client, entries []string, dest string, n int) []*tunnel {
	t.Helper()
	type opened struct {
		*tunnel
		err error
	}
	results := make(chan opened)
	turn := make(chan struct{}, 50)
	for i := range n {
		go func() {
			turn <- struct{}{}
			tun, err := c.connect(context.WithoutCancel(t.Context()), entries[i%len(entries)], dest)
			<-turn
			results <- opened{tun, err}
		}()
	}
	var out []*tunnel
	for range n {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		out = append(out, r.tunnel)
	}
	return out
}

func TestDestinationsThatTheOwnerDidNotAllow(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c := addDevice(t, m, "curious")
	private := serve(t, "127.0.0.1:0", func(*net.TCPConn) { t.Error("a destination on the core's own loopback was reached") })
	_, port, err := net.SplitHostPort(private)
	if err != nil {
		t.Fatal(err)
	}
	for _, dest := range []string{private, "localhost:" + port, "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "0.0.0.0:" + port, "169.254.169.254:80", "10.0.0.1:80", "2130706433:" + port} {
		_, err := c.connect(t.Context(), m.EntryAddresses[0], dest)
		if e, ok := errors.AsType[statusError](err); !ok || e.StatusCode < http.StatusBadRequest {
			t.Errorf("%s: %v", dest, err)
		}
	}
}
