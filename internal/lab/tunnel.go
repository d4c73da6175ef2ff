package lab

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
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
)

// SetupTime is how long a client waits for a connection to be served.
const SetupTime = 15 * time.Second

// Tunnel is a connection through the mesh, by CONNECT.
type Tunnel struct {
	*tls.Conn
	buffered *bufio.Reader
}

func (t *Tunnel) Read(p []byte) (int, error) { return t.buffered.Read(p) }

// Open opens a tunnel to a destination over a connection to an entry, as the
// device of a link, whose CA is roots. It closes the connection when that fails.
func Open(ctx context.Context, raw net.Conn, link admin.DeviceLink, roots *x509.CertPool, dest string) (*Tunnel, error) {
	t, err := open(ctx, raw, link, roots, dest)
	if err != nil {
		raw.Close() // the error that counts is there already
		return nil, err
	}
	return t, nil
}

func open(ctx context.Context, raw net.Conn, link admin.DeviceLink, roots *x509.CertPool, dest string) (*Tunnel, error) {
	if err := raw.SetDeadline(time.Now().Add(SetupTime)); err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{ServerName: string(link.ServerName), RootCAs: roots, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	auth := http.Request{Header: http.Header{}}
	auth.SetBasicAuth(link.User, link.Secret)
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: %s\r\n\r\n", dest, dest, auth.Header.Get("Authorization")); err != nil {
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

// Origin gives back what it gets.
type Origin struct {
	ln net.Listener
	wg sync.WaitGroup
}

// ServeEcho has an origin serve until it is closed.
func ServeEcho(ln net.Listener) *Origin {
	o := &Origin{ln: ln}
	o.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			o.wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends as the tunnel does
			})
		}
	})
	return o
}

// Close ends the listener. Connections end with their peers.
func (o *Origin) Close() error { return o.ln.Close() }
