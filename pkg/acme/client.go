package acme

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	xacme "golang.org/x/crypto/acme"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	userAgent   = "meshctl"
	requestTime = 30 * time.Second // for one request
	// OrderTime bounds an order as a whole.
	OrderTime = 15 * time.Minute
	// cleanTime is for taking a record back, calledOffTime when the order was called
	// off and somebody waits for its end.
	cleanTime     = 15 * time.Second
	calledOffTime = 3 * time.Second
)

// Client is one account at one authority. Set the fields, then use it.
type Client struct {
	Directory   string // URL
	Roots       string // PEM, "": the system's
	Contact     string // e-mail address, or ""
	External    string // key id of an account that exists elsewhere, or ""
	ExternalKey mesh.Secret
	Key         crypto.Signer
	Resolver    *Resolver
	Provider    Provider
	Zone        string // in which records are written; "": found by asking
	// AllowMissingCAA orders whatever CAA records say.
	AllowMissingCAA bool

	client *xacme.Client
	known  Registration
}

// Registration is what is known of an account.
type Registration struct {
	URI        string
	Identities []string // by which CAA records name the authority
	Terms      string   // URL
}

// HTTPClient makes requests that end, to servers that these roots (PEM; "": the
// system's) vouch for.
func HTTPClient(roots string) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(roots)) {
			return nil, fault(Settings, fmt.Errorf("acme: roots: no certificate in PEM: %w", mesh.ErrInvalid))
		}
	}
	return &http.Client{
		Timeout:   requestTime,
		Transport: &http.Transport{TLSClientConfig: conf, MaxResponseHeaderBytes: 64 << 10, Proxy: nil, ForceAttemptHTTP2: true},
	}, nil
}

// Register returns what is known of the account, which it makes when there is
// none with this key.
func (c *Client) Register(ctx context.Context) (Registration, error) {
	if c.known.URI != "" {
		return c.known, nil
	}
	client, err := HTTPClient(c.Roots)
	if err != nil {
		return Registration{}, err
	}
	c.client = &xacme.Client{Key: c.Key, HTTPClient: client, DirectoryURL: c.Directory, UserAgent: userAgent, RetryBackoff: backoff}
	dir, err := c.client.Discover(ctx)
	if err != nil {
		return Registration{}, fmt.Errorf("acme: read directory: %w", err)
	}
	a := &xacme.Account{}
	if c.Contact != "" {
		a.Contact = []string{"mailto:" + c.Contact}
	}
	if c.External != "" {
		key, err := base64.RawURLEncoding.DecodeString(c.ExternalKey.Reveal())
		if err != nil {
			return Registration{}, fault(Settings, fmt.Errorf("acme: external account: its key is not base64url: %w", mesh.ErrInvalid))
		}
		a.ExternalAccountBinding = &xacme.ExternalAccountBinding{KID: c.External, Key: key}
	}
	made, err := c.client.Register(ctx, a, xacme.AcceptTOS)
	if errors.Is(err, xacme.ErrAccountAlreadyExists) {
		made, err = c.client.GetReg(ctx, "")
	}
	if err != nil {
		return Registration{}, fmt.Errorf("acme: register account: %w", err)
	}
	c.known = Registration{URI: made.URI, Identities: dir.CAA, Terms: dir.Terms}
	return c.known, nil
}

// backoff: an authority that is in trouble is asked twice more; one that counts
// us is left alone.
func backoff(n int, _ *http.Request, resp *http.Response) time.Duration {
	if n > 2 || resp != nil && resp.StatusCode == http.StatusTooManyRequests {
		return 0
	}
	return time.Duration(n) * time.Second
}

// Close ends the connections.
func (c *Client) Close() {
	if c.client != nil {
		c.client.HTTPClient.CloseIdleConnections()
	}
}
