package kubes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const service = mesh.ServerName("sub.example.net")

// issuer makes certificates for tests.
type issuer struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.cert, i.key = i.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return i
}

func (i *issuer) make(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := i.cert, i.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		i.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	return out, key
}

func (i *issuer) server(name mesh.ServerName) *tls.Certificate {
	c, key := i.make(&x509.Certificate{DNSNames: []string{string(name)}})
	return &tls.Certificate{Certificate: [][]byte{c.Raw, i.cert.Raw}, PrivateKey: key}
}

// behind is who answers at an address.
func behind(t *testing.T, answer func(net.Conn)) mesh.KubeAddress {
	t.Helper()
	p := openPort(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := p.ln.Accept()
			if err != nil {
				return
			}
			answer(conn)
		}
	}()
	t.Cleanup(func() { _ = p.ln.Close(); <-done })
	return p.address()
}

func TestWhoAnswersAtAnAddress(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	own := ca.server(service)
	serves := func(c *tls.Certificate) func(net.Conn) {
		return func(conn net.Conn) {
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*c}}).HandshakeContext(t.Context()) // the other side judges
			_ = conn.Close()
		}
	}
	for name, c := range map[string]struct {
		answer func(net.Conn)
		bad    string // "": it is good
	}{
		"this mesh": {serves(own), ""},
		"another server of it, by the same issuer":    {serves(ca.server(service)), ""},
		"the same issuer for another name":            {serves(ca.server("www.example.net")), "leads to no entry of this mesh"},
		"somebody else for the same name":             {serves(newIssuer(t).server(service)), "another certificate than that of sub.example.net"},
		"a balancer that has nobody behind it":        {func(c net.Conn) { _ = c.Close() }, "leads to no entry of this mesh"},
		"something that speaks, but not TLS":          {func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-x\r\n")); _ = c.Close() }, "leads to no entry of this mesh"},
		"something that says nothing until it is cut": {func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<16)); _, _ = c.Read(make([]byte, 1)); _ = c.Close() }, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &Lookout{Service: func() (mesh.ServerName, *tls.Certificate) { return service, own }, Time: patience}
			if c.bad == "no answer in time" {
				l.Time = 200 * time.Millisecond
			}
			err := l.try(t.Context(), behind(t, c.answer), nil)
			if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%v, want %q", err, c.bad)
			}
		})
	}
}

// Without a subscription service, or before it has a certificate, there is nothing
// to ask for: a port that is open is all that can be said.
func TestAnOpenPortIsEnoughWithoutASubscriptionService(t *testing.T) {
	t.Parallel()
	a := behind(t, func(c net.Conn) { _ = c.Close() })
	for _, l := range []*Lookout{
		{},
		{Service: func() (mesh.ServerName, *tls.Certificate) { return "", nil }},
		{Service: func() (mesh.ServerName, *tls.Certificate) { return service, nil }},
	} {
		if err := l.try(t.Context(), a, nil); err != nil {
			t.Error(err)
		}
	}
}
