package relay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two running sessions that face each other.
type pair struct {
	entry, core *Session
	cancel      context.CancelCauseFunc
	wait        func() (entryErr, coreErr error)
}

// run starts a session at each end of a connection, and ends them with the test.
func run(tb testing.TB, entryConn, coreConn net.Conn, cfg Config) *pair {
	tb.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &pair{entry: Client(entryConn, cfg), core: Server(coreConn, cfg), cancel: cancel}
	var wg sync.WaitGroup
	var entryErr, coreErr error
	wg.Go(func() { entryErr = p.entry.Run(ctx) })
	wg.Go(func() { coreErr = p.core.Run(ctx) })
	p.wait = func() (error, error) { wg.Wait(); return entryErr, coreErr }
	tb.Cleanup(func() {
		cancel(nil)
		p.wait()
	})
	return p
}

func pipePair(tb testing.TB, cfg Config) *pair {
	a, b := net.Pipe()
	return run(tb, a, b, cfg)
}

func tlsPair(tb testing.TB, cfg Config) *pair {
	a, b := tlsConns(tb)
	return run(tb, a, b, cfg)
}

// tcpConns returns the two ends of a loopback connection.
func tcpConns(tb testing.TB) (dialed, accepted *net.TCPConn) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	d, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close(); a.Close() })
	return d.(*net.TCPConn), a.(*net.TCPConn)
}

func tlsConns(tb testing.TB) (client, server *tls.Conn) {
	tb.Helper()
	a, b := tcpConns(tb)
	cert := certificate(tb)
	server = tls.Server(b, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN},
		DynamicRecordSizingDisabled: true,
	})
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	client = tls.Client(a, &tls.Config{
		RootCAs: roots, ServerName: "core.test", MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN},
		DynamicRecordSizingDisabled: true,
	})
	var wg sync.WaitGroup
	for _, c := range []*tls.Conn{client, server} {
		wg.Go(func() {
			if err := c.HandshakeContext(context.Background()); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
	return client, server
}

func certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"core.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

var testHeader = Header{ServerName: "a1b2.a.example.net", Device: "dev-1", Trace: "0123456789abcdef"}

// open opens a stream that the core accepts, and returns both ends.
func (p *pair) open(tb testing.TB) (entry, core *Stream) {
	tb.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		in, err := p.core.Accept(context.Background())
		if err == nil {
			core, err = in.Accept()
		}
		if err != nil {
			tb.Error(err)
		}
	})
	entry, err := p.entry.Open(context.Background(), testHeader)
	if err != nil {
		tb.Fatal(err)
	}
	wg.Wait()
	return entry, core
}

// serve accepts all streams and hands them to f, each in a goroutine, until the session ends.
func (p *pair) serve(tb testing.TB, f func(*Stream)) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := p.core.Accept(context.Background())
			if err != nil {
				return
			}
			st, err := in.Accept()
			if err != nil {
				continue // given up by its opener
			}
			wg.Go(func() { f(st) })
		}
	})
	tb.Cleanup(func() {
		p.cancel(nil)
		wg.Wait()
	})
}

func echo(st *Stream) {
	io.Copy(st, st)
	st.Close()
}

func readAll(tb testing.TB, r io.Reader) []byte {
	tb.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func write(tb testing.TB, w io.Writer, p []byte) {
	tb.Helper()
	if n, err := w.Write(p); err != nil || n != len(p) {
		tb.Fatalf("wrote %d of %d: %v", n, len(p), err)
	}
}

// resetCodeOf returns the code of a *ResetError in err.
func resetCodeOf(tb testing.TB, err error) Code {
	tb.Helper()
	e, ok := errors.AsType[*ResetError](err)
	if !ok {
		tb.Fatalf("not a reset: %v", err)
	}
	return e.Code
}

// eventually waits until f returns true.
func eventually(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			tb.Fatal("never: " + what)
		}
		<-tick.C
	}
}
