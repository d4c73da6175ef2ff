//go:build faults

package faults

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

// setupTime is how long a client waits for a connection to be served.
const setupTime = 15 * time.Second

// Client is what runs on a device: it knows the device's link and nothing else.
type Client struct {
	Link   admin.DeviceLink
	Device admin.DeviceView

	from  *Host
	wrap  func(net.Conn) net.Conn // what TLS runs over, when set
	dest  string
	roots *x509.CertPool
}

// NewClient adds a device of the member.
func (l *Lab) NewClient(t testing.TB, member string) *Client {
	t.Helper()
	return l.clientIn(t, member, cellName)
}

// clientIn is NewClient in another cell.
func (l *Lab) clientIn(t testing.TB, member, cell string) *Client {
	t.Helper()
	l.devices++
	c := &Client{from: l.Client, dest: l.Origin.At(7), roots: x509.NewCertPool()}
	c.Device = must(t, l, admin.DeviceAdd, admin.DeviceAddRequest{Member: member, Name: fmt.Sprintf("device-%d", l.devices), Cell: cell})
	c.Link = must(t, l, admin.DeviceLinkOf, admin.Ref{Ref: string(c.Device.ID)})
	if !c.roots.AppendCertsFromPEM([]byte(c.Link.CA)) {
		t.Fatal("the link has no CA")
	}
	return c
}

// Tunnel is a CONNECT tunnel to the origin's echo.
type Tunnel struct {
	*tls.Conn
	buffered *bufio.Reader
}

func (t *Tunnel) Read(p []byte) (int, error) { return t.buffered.Read(p) }

// Connect opens a tunnel through an entry.
func (c *Client) Connect(ctx context.Context, entry *Host) (_ *Tunnel, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	raw, err := c.from.Dial(ctx, entry.At(443))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			raw.Close() // the error that counts is there already
		}
	}()
	if err := raw.SetDeadline(time.Now().Add(setupTime)); err != nil {
		return nil, err
	}
	if c.wrap != nil {
		raw = c.wrap(raw)
	}
	conn := tls.Client(raw, &tls.Config{ServerName: string(c.Link.ServerName), RootCAs: c.roots, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	auth := http.Request{Header: http.Header{}}
	auth.SetBasicAuth(c.Link.User, c.Link.Secret)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", c.dest, c.dest, auth.Header.Get("Authorization")); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New("the proxy answers " + resp.Status)
	}
	return &Tunnel{conn, r}, conn.SetDeadline(time.Time{})
}

// Echo sends a byte and wants it back within limit.
func (t *Tunnel) Echo(b byte, limit time.Duration) error {
	if err := t.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	buf := []byte{b}
	if _, err := t.Write(buf); err != nil {
		return err
	}
	if _, err := io.ReadFull(t, buf); err != nil {
		return err
	}
	if buf[0] != b {
		return fmt.Errorf("byte %d came back as %d", b, buf[0])
	}
	return nil
}

// Dies waits until the tunnel ends and returns how long that took.
func (t *Tunnel) Dies(limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	if err := t.SetDeadline(begin.Add(limit)); err != nil {
		return 0, err
	}
	_, err := io.Copy(io.Discard, t)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return time.Since(begin), fmt.Errorf("still open after %v", limit)
	}
	return time.Since(begin), nil
}

// Try opens a tunnel, sends a byte to the echo and closes it.
func (c *Client) Try(ctx context.Context, entry *Host) error {
	tun, err := c.Connect(ctx, entry)
	if err != nil {
		return fmt.Errorf("through %s: %w", entry.Name, err)
	}
	defer tun.Close()
	return tun.Echo(7, setupTime)
}

// echo gives back what it gets.
type echo struct {
	ln net.Listener
	wg sync.WaitGroup
}

func serveEcho(ln net.Listener) *echo {
	e := &echo{ln: ln}
	e.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends as the tunnel does
			})
		}
	})
	return e
}

// close needs its peers to be gone.
func (e *echo) close() error { return e.ln.Close() }
