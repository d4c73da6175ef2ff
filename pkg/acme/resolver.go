package acme

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	queryTime = 3 * time.Second // for one question to one server
	queryEach = 2               // questions to each server
	maxUDP    = 1232            // bytes, what passes everywhere
)

// Resolver asks recursive servers.
type Resolver struct {
	servers []string      // host:port
	port    string        // of the servers of zones
	wait    time.Duration // until they all have a record
	look    time.Duration // between two looks at them
}

// NewResolver asks those servers (host:port), and without any the system's.
func NewResolver(servers ...string) (*Resolver, error) {
	if len(servers) > 0 {
		return &Resolver{servers: servers, port: "53", wait: seenTime, look: seenEvery}, nil
	}
	conf, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil || len(conf.Servers) == 0 {
		return nil, mesh.WithHint(fmt.Errorf("acme: find the system's resolvers: %w: %w", err, mesh.ErrUnavailable), "name resolvers to ask")
	}
	for _, s := range conf.Servers {
		servers = append(servers, net.JoinHostPort(s, conf.Port))
	}
	return NewResolver(servers...)
}

// ask returns the answer of the first server that gives one. That a name does
// not exist is an answer.
func (r *Resolver) ask(ctx context.Context, name string, kind uint16) (*dns.Msg, error) {
	var errs []error
	for range queryEach {
		for _, server := range r.servers {
			m, err := exchange(ctx, server, name, kind, true)
			if err == nil {
				return m, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			errs = append(errs, err)
		}
	}
	return nil, fmt.Errorf("acme: ask for %s of %s: %w: %w", dns.TypeToString[kind], mesh.Quotable(name), errs[len(errs)-1], mesh.ErrUnavailable)
}

// exchange asks one server, and again over TCP when the answer does not fit.
func exchange(ctx context.Context, server, name string, kind uint16, recursive bool) (*dns.Msg, error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	q.RecursionDesired = recursive
	q.SetEdns0(maxUDP, false)
	for _, network := range []string{"udp", "tcp"} {
		c := dns.Client{Net: network, Timeout: queryTime, UDPSize: maxUDP}
		m, _, err := c.ExchangeContext(ctx, q, server)
		switch {
		case err != nil:
			return nil, err
		case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
			return nil, fmt.Errorf("%s answers %s", server, dns.RcodeToString[m.Rcode])
		case !m.Truncated:
			return m, nil
		}
	}
	return nil, errors.New("the answer is cut short over TCP too")
}

// texts are the TXT records in an answer.
func texts(m *dns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		if t, ok := rr.(*dns.TXT); ok {
			out = append(out, strings.Join(t.Txt, ""))
		}
	}
	return out
}

// Addresses are those of a name, IPv4 first; none is no error.
func (r *Resolver) Addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m, err := r.ask(ctx, name, kind)
		if err != nil {
			return nil, err
		}
		for _, rr := range m.Answer {
			var ip net.IP
			switch a := rr.(type) {
			case *dns.A:
				ip = a.A
			case *dns.AAAA:
				ip = a.AAAA
			}
			if a, ok := netip.AddrFromSlice(ip); ok {
				out = append(out, a.Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// apex is the zone that a name is in.
func (r *Resolver) apex(ctx context.Context, name string) (string, error) {
	m, err := r.ask(ctx, name, dns.TypeSOA)
	if err != nil {
		return "", err
	}
	for _, rr := range slices.Concat(m.Answer, m.Ns) {
		if soa, ok := rr.(*dns.SOA); ok && dns.IsSubDomain(soa.Hdr.Name, dns.Fqdn(name)) {
			return unqualified(soa.Hdr.Name), nil
		}
	}
	return "", fmt.Errorf("acme: find the zone of %s: no server says: %w", mesh.Quotable(name), mesh.ErrNotFound)
}

// target follows aliases: a challenge may be answered in another zone.
func (r *Resolver) target(ctx context.Context, name string) (string, error) {
	m, err := r.ask(ctx, name, dns.TypeCNAME)
	if err != nil {
		return "", err
	}
	at := dns.CanonicalName(name)
	for range len(m.Answer) {
		i := slices.IndexFunc(m.Answer, func(rr dns.RR) bool {
			_, ok := rr.(*dns.CNAME)
			return ok && dns.CanonicalName(rr.Header().Name) == at
		})
		if i < 0 {
			break
		}
		at = dns.CanonicalName(m.Answer[i].(*dns.CNAME).Target)
	}
	return unqualified(at), nil
}

func unqualified(name string) string { return strings.TrimSuffix(dns.CanonicalName(name), ".") }
