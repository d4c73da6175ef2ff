//go:build kube

package kube

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
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

// setupTime is how long a client waits for a connection to be served.
const setupTime = 15 * time.Second

// device is a client of the mesh, with what its link says.
type device struct {
	link  admin.DeviceLink
	roots *x509.CertPool
	from  *host
	dest  string
}

func (m *Mesh) newDevice(t testing.TB, name string) *device {
	t.Helper()
	d := &device{from: m.client, dest: m.origin.at(7), roots: x509.NewCertPool()}
	view := must(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: memberName, Name: name, Cell: cellName})
	d.link = must(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(view.ID)})
	if !d.roots.AppendCertsFromPEM([]byte(d.link.CA)) {
		t.Fatal("the link has no CA")
	}
	return d
}

// tunnel is a connection to the origin's echo.
type tunnel struct {
	*tls.Conn
	buffered *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.buffered.Read(p) }

// connect opens a tunnel through the entry at an address.
func (d *device) connect(ctx context.Context, entry string) (_ *tunnel, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	raw, err := d.from.dial(ctx, "tcp", entry)
	if err != nil {
		return nil, err
	}
	tun, err := d.open(ctx, raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return tun, nil
}

func (d *device) open(ctx context.Context, raw net.Conn) (*tunnel, error) {
	if err := raw.SetDeadline(time.Now().Add(setupTime)); err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{ServerName: string(d.link.ServerName), RootCAs: d.roots, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	auth := http.Request{Header: http.Header{}}
	auth.SetBasicAuth(d.link.User, d.link.Secret)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", d.dest, d.dest, auth.Header.Get("Authorization")); err != nil {
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
	return &tunnel{conn, r}, conn.SetDeadline(time.Time{})
}

// ping sends a byte and wants it back within limit.
func (t *tunnel) ping(b byte, limit time.Duration) error {
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

// try opens a tunnel, sends a byte there and back, and closes it.
func (d *device) try(ctx context.Context, entry string) error {
	tun, err := d.connect(ctx, entry)
	if err != nil {
		return err
	}
	defer tun.Close()
	return tun.ping(7, setupTime)
}

// serveEcho gives back what it gets until the listener is closed.
func serveEcho(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // ends as the tunnel does
		}()
	}
}
