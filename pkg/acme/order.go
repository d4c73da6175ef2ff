package acme

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	xacme "golang.org/x/crypto/acme"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Order has a request (DER) for one name certified and returns the chain, DER,
// leaf first.
func (c *Client) Order(ctx context.Context, name string, csr []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, OrderTime)
	defer cancel()
	if err := checkRequest(name, csr); err != nil {
		return nil, err
	}
	account, err := c.Register(ctx)
	if err != nil {
		return nil, err
	}
	if !c.AllowMissingCAA {
		if err := c.Resolver.checkCAA(ctx, name, account.Identities, account.URI); err != nil {
			return nil, err
		}
	}
	order, err := c.client.AuthorizeOrder(ctx, xacme.DomainIDs(name))
	if err != nil {
		return nil, fmt.Errorf("acme: order %s: %w", name, err)
	}
	for _, u := range order.AuthzURLs {
		if err := c.prove(ctx, name, u); err != nil {
			return nil, err
		}
	}
	if order, err = c.client.WaitOrder(ctx, order.URI); err != nil {
		return nil, fmt.Errorf("acme: order %s: %w", name, err)
	}
	chain, _, err := c.client.CreateCertFromOrder(ctx, order, csr, true)
	if err != nil {
		return nil, fmt.Errorf("acme: order %s: %w", name, err)
	}
	return chain, checkChain(name, csr, chain)
}

// prove answers the challenge of one authorization.
func (c *Client) prove(ctx context.Context, name, url string) error {
	authz, err := c.client.GetAuthorization(ctx, url)
	if err != nil {
		return fmt.Errorf("acme: prove %s: %w", name, err)
	}
	if authz.Status == xacme.StatusValid {
		return nil
	}
	i := slices.IndexFunc(authz.Challenges, func(c *xacme.Challenge) bool { return c.Type == methodDNS })
	if i < 0 {
		return fault(Refused, fmt.Errorf("acme: prove %s: the authority offers no %s: %w", name, methodDNS, mesh.ErrInvalid))
	}
	text, err := c.client.DNS01ChallengeRecord(authz.Challenges[i].Token)
	if err != nil {
		return fmt.Errorf("acme: prove %s: %w", name, err)
	}
	remove, err := c.show(ctx, "_acme-challenge."+strings.TrimPrefix(name, "*."), text)
	defer remove()
	if err != nil {
		return err
	}
	if _, err := c.client.Accept(ctx, authz.Challenges[i]); err != nil {
		return fmt.Errorf("acme: prove %s: %w", name, err)
	}
	if _, err := c.client.WaitAuthorization(ctx, authz.URI); err != nil {
		return fmt.Errorf("acme: prove %s: %w", name, err)
	}
	return nil
}

// show writes a record and returns when it can be seen. remove is to be called in
// any case.
func (c *Client) show(ctx context.Context, name, text string) (remove func(), err error) {
	remove = func() {}
	at, err := c.Resolver.target(ctx, name)
	if err != nil {
		return remove, fault(Record, err)
	}
	zone := c.Zone
	if zone == "" {
		if zone, err = c.Resolver.apex(ctx, at); err != nil {
			return remove, fault(Record, err)
		}
	}
	remove = func() {
		// The record proves nothing any more; one that stays does no harm.
		within := cleanTime
		if ctx.Err() != nil {
			within = calledOffTime
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		_ = c.Provider.Remove(ctx, zone, at, text)
	}
	if err := c.Provider.Add(ctx, zone, at, text); err != nil {
		return remove, fault(Record, err)
	}
	return remove, c.Resolver.seen(ctx, zone, at, text)
}

// checkRequest wants a request for that name alone.
func checkRequest(name string, csr []byte) error {
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil || len(r.DNSNames) != 1 || r.DNSNames[0] != name {
		return fault(Settings, fmt.Errorf("acme: the request is not for %s: %w", mesh.Quotable(name), mesh.ErrInvalid))
	}
	return nil
}

// checkChain wants a certificate of now for the key and the name of the request.
func checkChain(name string, csr []byte, chain [][]byte) error {
	bad := func(why string) error {
		return fault(Chain, fmt.Errorf("acme: certificate for %s: %s: %w", name, why, mesh.ErrInvalid))
	}
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil || len(chain) == 0 {
		return bad("there is none")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	switch {
	case err != nil:
		return bad("it cannot be read")
	case string(leaf.RawSubjectPublicKeyInfo) != string(r.RawSubjectPublicKeyInfo):
		return bad("it is for another key")
	case !slices.Contains(leaf.DNSNames, name):
		return bad("it is for other names")
	case time.Now().After(leaf.NotAfter):
		return bad("it has ended")
	}
	return nil
}
