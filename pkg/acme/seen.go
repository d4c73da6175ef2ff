package acme

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	seenTime  = 3 * time.Minute // until all servers of a zone have a record
	seenEvery = 2 * time.Second
)

// seen returns when every server of the zone that answers has the record: an
// authority asks whichever it likes. Where none can be reached from here, the
// resolvers are asked.
func (r *Resolver) seen(ctx context.Context, zone, name, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.wait, fault(Unseen, fmt.Errorf("acme: record %s: not on all servers of the zone within %v: %w", name, r.wait, mesh.ErrUnavailable)))
	defer cancel()
	for {
		servers, err := r.authorities(ctx, zone)
		if err == nil && r.all(ctx, servers, name, text) {
			return nil
		}
		t := time.NewTimer(r.look)
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// authorities are the addresses of the servers of a zone.
func (r *Resolver) authorities(ctx context.Context, zone string) ([]string, error) {
	m, err := r.ask(ctx, zone, dns.TypeNS)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, rr := range m.Answer {
		ns, ok := rr.(*dns.NS)
		if !ok {
			continue
		}
		addrs, err := r.Addresses(ctx, unqualified(ns.Ns))
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			out = append(out, net.JoinHostPort(a.String(), r.port))
		}
	}
	return out, nil
}

// all says whether the servers that answer have the record, and one at least.
func (r *Resolver) all(ctx context.Context, servers []string, name, text string) bool {
	answered := 0
	for _, s := range servers {
		m, err := exchange(ctx, s, name, dns.TypeTXT, false)
		if err != nil {
			continue
		}
		answered++
		if !slices.Contains(texts(m), text) {
			return false
		}
	}
	if answered > 0 {
		return true
	}
	m, err := r.ask(ctx, name, dns.TypeTXT)
	return err == nil && slices.Contains(texts(m), text)
}
