//go:build faults

package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/identity"
)

// identity is what a thief finds on the host: the newest certificate and key, of
// a node, a server or an administrator.
func (h *Host) identity(t testing.TB) tls.Certificate {
	t.Helper()
	for _, dir := range []string{"data/identity", "data/node", "meshctl/identity"} {
		files, err := filepath.Glob(filepath.Join(h.Dir, dir, "identity-*.pem"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			return pair(t, files[len(files)-1])
		}
	}
	t.Fatalf("%s has no identity", h.Name)
	return tls.Certificate{}
}

// pair reads a certificate and its key from one file.
func pair(t testing.TB, file string) tls.Certificate {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// door is a listener that wants a certificate.
type door struct {
	name  string
	from  *Host // who knocks
	addr  string
	proto string // ALPN; "" is none
	say   string // what its client says first
}

// Openings of connections that are let in.
const (
	sayHTTP2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	sayHTTP  = "GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n"
)

func (l *Lab) meshPort(from, h *Host) door {
	return door{h.Name + "'s mesh port", from, h.At(8443), identity.ProtoGRPC, sayHTTP2}
}

func relayPort(from, h *Host, proto string) door {
	return door{h.Name + "'s relay port", from, h.At(8444), proto, ""}
}

// listens is how long a connection is silent that was not refused.
const listens = time.Second

// knock presents a certificate and returns the connection if it is let in: an
// answer came, or for a while no refusal. With TLS 1.3 a refused certificate
// shows on the first read.
func (d door) knock(ctx context.Context, cert tls.Certificate) (_ *tls.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, lab.SetupTime)
	defer cancel()
	raw, err := d.from.Dial(ctx, d.addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			raw.Close() // the error that counts is there already
		}
	}()
	conf := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
	if d.proto != "" {
		conf.NextProtos = []string{d.proto}
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(d.say)); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(listens)); err != nil {
		return nil, err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	return conn, conn.SetReadDeadline(time.Time{})
}

// try knocks and hangs up.
func (d door) try(ctx context.Context, cert tls.Certificate) error {
	conn, err := d.knock(ctx, cert)
	if err != nil {
		return err
	}
	return conn.Close()
}

// refuses wants the certificate, and not the connection, to be refused.
func (d door) refuses(ctx context.Context, cert tls.Certificate) error {
	err := d.try(ctx, cert)
	if err == nil {
		return errors.New(d.name + " lets it in")
	}
	// An alert is what says so; a door that is too busy just hangs up.
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return nil
	}
	return fmt.Errorf("%s: %w", d.name, err)
}
