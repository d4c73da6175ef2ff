package acme

import (
	"context"
	"fmt"
	"net/http"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Provider writes TXT records beside those that are there already.
type Provider interface {
	Add(ctx context.Context, zone, name, text string) error
	// Remove removes that record and no other; that there is none is no error.
	Remove(ctx context.Context, zone, name, text string) error
}

// recordTTL is in seconds: the records live for a minute or two.
const recordTTL = 60

// NewProvider is what a configuration describes. credential is the TSIG secret or
// the token; client is for providers that speak HTTP.
func NewProvider(p mesh.DNSProvider, credential mesh.Secret, client *http.Client) (Provider, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	switch p.Kind {
	case mesh.DNSUpdate:
		return &updates{server: p.Server, key: p.KeyName, algorithm: p.Algorithm, secret: credential}, nil
	case mesh.DNSCloudflare:
		return &cloudflare{base: p.Server, token: credential, client: client}, nil
	}
	return nil, fmt.Errorf("acme: DNS provider %q: %w", p.Kind, mesh.ErrInvalid)
}
