package identitytest

import (
	"crypto/x509"
	"net/url"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Option changes a certificate before it is signed, usually for the worse.
type Option func(*x509.Certificate)

// Expired ends the certificate that long ago.
func Expired(ago time.Duration) Option {
	return func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(-ago)
		c.NotBefore = c.NotAfter.Add(-24 * time.Hour)
	}
}

// NotYet lets the certificate begin only then.
func NotYet(in time.Duration) Option {
	return func(c *x509.Certificate) {
		c.NotBefore = time.Now().Add(in)
		c.NotAfter = c.NotBefore.Add(24 * time.Hour)
	}
}

// Life ends the certificate that long from now.
func Life(d time.Duration) Option {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(d) }
}

// Also adds a second identity.
func Also(id mesh.Identity) Option {
	return func(c *x509.Certificate) {
		u, err := url.Parse(id.String())
		if err != nil {
			panic(err) // identities are valid URIs
		}
		c.URIs = append(c.URIs, u)
	}
}

// Names replaces the URI names.
func Names(uris ...*url.URL) Option {
	return func(c *x509.Certificate) { c.URIs = uris }
}

// Usage replaces the extended key usages.
func Usage(u ...x509.ExtKeyUsage) Option {
	return func(c *x509.Certificate) { c.ExtKeyUsage = u }
}
