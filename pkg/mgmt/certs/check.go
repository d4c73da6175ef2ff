package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	maxRequest = 16 << 10 // bytes
	maxChain   = 8        // certificates
)

// checkRequest wants a request for exactly that name, with a key of P-256 and
// proof that whoever asks has it. It returns ErrInvalid.
func checkRequest(der []byte, name string) error {
	bad := func(why string) error { return fmt.Errorf("certs: request: %s: %w", why, mesh.ErrInvalid) }
	if len(der) > maxRequest {
		return bad("it is too long")
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return bad("it cannot be read")
	}
	key, ok := r.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || key.Curve != elliptic.P256():
		return bad("want a key of P-256")
	case r.CheckSignature() != nil:
		return bad("it is not signed by its key")
	case len(r.DNSNames) != 1 || r.DNSNames[0] != name || len(r.IPAddresses)+len(r.EmailAddresses)+len(r.URIs) > 0 || len(r.Subject.Names) > 0:
		return bad("want the name " + name + " and no other")
	}
	return nil
}

// sameKey says whether two requests are for the same key.
func sameKey(a, b []byte) bool {
	x, err := x509.ParseCertificateRequest(a)
	y, err2 := x509.ParseCertificateRequest(b)
	return err == nil && err2 == nil && bytes.Equal(x.RawSubjectPublicKeyInfo, y.RawSubjectPublicKeyInfo)
}

// answered says whether the newest chain is for the newest request.
func answered(o mesh.CertOrder) bool { return len(o.Chain) > 0 && forKey(o.Chain[0], o.Request) }

// forKey says whether a certificate is for the key of a request.
func forKey(leaf, request []byte) bool {
	c, err := x509.ParseCertificate(leaf)
	r, err2 := x509.ParseCertificateRequest(request)
	return err == nil && err2 == nil && bytes.Equal(c.RawSubjectPublicKeyInfo, r.RawSubjectPublicKeyInfo)
}

// checkChain wants a chain, leaf first, that serves name at now and in which each
// certificate is signed by the next. It returns the leaf, or ErrInvalid.
func checkChain(chain [][]byte, name string, now time.Time) (*x509.Certificate, error) {
	bad := func(format string, args ...any) (*x509.Certificate, error) {
		return nil, fmt.Errorf("certs: chain: "+format+": %w", append(args, mesh.ErrInvalid)...)
	}
	if len(chain) == 0 || len(chain) > maxChain {
		return bad("%d certificates, want 1 to %d", len(chain), maxChain)
	}
	certs := make([]*x509.Certificate, len(chain))
	for i, der := range chain {
		var err error
		if certs[i], err = x509.ParseCertificate(der); err != nil {
			return bad("certificate %d cannot be read", i+1)
		}
	}
	leaf := certs[0]
	for i, c := range certs[1:] {
		if err := certs[i].CheckSignatureFrom(c); err != nil {
			return bad("certificate %d (%s) is not signed by the next (%s): the leaf comes first, then what signed it", i+1, mesh.Quotable(certs[i].Subject.String()), mesh.Quotable(c.Subject.String()))
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(certs[len(certs)-1])
	inter := x509.NewCertPool()
	for _, c := range certs[1:] {
		inter.AddCert(c)
	}
	switch {
	case leaf.IsCA:
		return bad("the first certificate is an authority's; want the leaf first")
	case !now.Before(leaf.NotAfter):
		return bad("it ended at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return bad("it begins at %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: under(name), Roots: roots, Intermediates: inter, CurrentTime: now}); err != nil {
		return bad("it does not serve %s: %v", name, err)
	}
	return leaf, nil
}

// under is a name that a certificate for name must serve.
func under(name string) string {
	if name[0] == '*' {
		return "x" + name[1:]
	}
	return name
}

// wildcard is the name that certificates of a cell are for.
func wildcard(suffix mesh.ServerName) string { return "*." + string(suffix) }
