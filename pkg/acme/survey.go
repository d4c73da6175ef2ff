package acme

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Question is a name of ours, and what name servers should say about it.
type Question struct {
	Name string // a host name, or a wildcard
	What string // for people
	// Public: a public authority certifies it. Ordered: from our account there.
	Public, Ordered bool
	Account         string
	Identities      []string // of the authority
	Entries         []string // host:port to which it should lead
}

// Answer is what name servers say.
type Answer struct {
	Name      string       `json:"name"`
	What      string       `json:"what"`
	Addresses []netip.Addr `json:"addresses"`
	CAA       []string     `json:"caa"`
	CAAAt     string       `json:"caaAt,omitzero"` // the name that holds them
	Problems  []string     `json:"problems,omitzero"`
	Advice    []string     `json:"advice,omitzero"`
	Make      []string     `json:"make,omitzero"` // records to make, as in a zone file
}

// Survey asks about one name.
func (r *Resolver) Survey(ctx context.Context, q Question) Answer {
	a := Answer{Name: q.Name, What: q.What, Addresses: []netip.Addr{}, CAA: []string{}}
	r.surveyAddresses(ctx, q, &a)
	if q.Public {
		r.surveyCAA(ctx, q, &a)
	}
	return a
}

func (a *Answer) problem(format string, args ...any) {
	a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
}

func (r *Resolver) surveyAddresses(ctx context.Context, q Question, a *Answer) {
	// A label that nobody has asked for, and so nobody has in memory.
	have, err := r.Addresses(ctx, strings.Replace(q.Name, "*", mesh.NewLabel(), 1))
	if err != nil {
		a.problem("%s", mesh.Plain(err))
		return
	}
	a.Addresses = append(a.Addresses, have...)
	if len(q.Entries) == 0 {
		a.Advice = append(a.Advice, "no addresses of entries are set, so nothing says where the name should lead: meshctl admin config set entryAddresses=HOST:PORT")
		return
	}
	if len(have) == 0 {
		a.problem("it leads nowhere")
	}
	entries, lost, err := r.entries(ctx, q.Entries)
	if err != nil {
		a.problem("entries: %s", mesh.Plain(err))
		return
	}
	for _, host := range lost {
		a.problem("the address of an entry, %s, leads nowhere either", host)
	}
	for _, e := range entries {
		if slices.Contains(have, e) {
			continue
		}
		kind := "A"
		if e.Is6() {
			kind = "AAAA"
		}
		a.Make = append(a.Make, fmt.Sprintf("%s %s %s", dns.Fqdn(q.Name), kind, e))
	}
	for _, h := range have {
		if !slices.Contains(entries, h) {
			a.problem("it leads to %s, which is no entry", h)
		}
	}
}

// entries are the addresses of the entries, and those of their names that have none.
func (r *Resolver) entries(ctx context.Context, hosts []string) (out []netip.Addr, lost []string, err error) {
	for _, e := range hosts {
		host, _, err := net.SplitHostPort(e)
		if err != nil {
			host = e
		}
		if a, err := netip.ParseAddr(host); err == nil {
			out = append(out, a.Unmap())
			continue
		}
		addrs, err := r.Addresses(ctx, host)
		if err != nil {
			return nil, nil, err
		}
		if len(addrs) == 0 {
			lost = append(lost, host)
		}
		out = append(out, addrs...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), lost, nil
}

func (r *Resolver) surveyCAA(ctx context.Context, q Question, a *Answer) {
	records, at, err := r.CAA(ctx, q.Name)
	if err != nil {
		a.problem("%s", mesh.Plain(err))
		return
	}
	for _, c := range records {
		a.CAA = append(a.CAA, c.String())
	}
	if len(records) > 0 {
		a.CAAAt = at
	}
	if !q.Ordered {
		if len(records) == 0 {
			a.Advice = append(a.Advice, "no CAA record says who may issue: whoever controls an entry could obtain a certificate for names that lead there")
		}
		return
	}
	if q.Account == "" {
		a.Advice = append(a.Advice, "the account at the authority is not known yet, so CAA records cannot name it")
		return
	}
	faults, advice := JudgeCAA(records, q.Identities, q.Account)
	a.Problems, a.Advice = append(a.Problems, faults...), append(a.Advice, advice...)
	if len(faults)+len(advice) > 0 {
		a.Make = append(a.Make, WantedCAA(q.Name, q.Identities, q.Account)...)
	}
}
