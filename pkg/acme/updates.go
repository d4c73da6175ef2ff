package acme

import (
	"context"
	"fmt"
	"time"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	updateTime = 10 * time.Second
	tsigFudge  = 300 // seconds that clocks may differ
)

// updates are dynamic updates (RFC 2136), signed by TSIG (RFC 8945).
type updates struct {
	server, key, algorithm string
	secret                 mesh.Secret // base64
}

func (u *updates) Add(ctx context.Context, zone, name, text string) error {
	return u.send(ctx, zone, name, func(m *dns.Msg) { m.Insert([]dns.RR{record(name, text)}) })
}

func (u *updates) Remove(ctx context.Context, zone, name, text string) error {
	return u.send(ctx, zone, name, func(m *dns.Msg) { m.Remove([]dns.RR{record(name, text)}) })
}

func record(name, text string) *dns.TXT {
	return &dns.TXT{Hdr: dns.RR_Header{Name: dns.Fqdn(name), Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: recordTTL}, Txt: []string{text}}
}

func (u *updates) send(ctx context.Context, zone, name string, fill func(*dns.Msg)) error {
	m := new(dns.Msg)
	m.SetUpdate(dns.Fqdn(zone))
	fill(m)
	key := dns.CanonicalName(u.key)
	m.SetTsig(key, dns.Fqdn(u.algorithm), tsigFudge, time.Now().Unix())
	c := dns.Client{Net: "tcp", Timeout: updateTime, TsigSecret: map[string]string{key: u.secret.Reveal()}}
	resp, _, err := c.ExchangeContext(ctx, m, u.server)
	if err == nil && resp.Rcode != dns.RcodeSuccess {
		err = fmt.Errorf("the server answers %s", dns.RcodeToString[resp.Rcode])
	}
	if err != nil {
		return fmt.Errorf("acme: update %s in zone %s at %s: %w: %w", mesh.Quotable(name), mesh.Quotable(zone), u.server, err, mesh.ErrUnavailable)
	}
	return nil
}
