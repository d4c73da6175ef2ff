package acme

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// CAA is a record that says who may issue (RFC 8659).
type CAA struct {
	Flag  uint8
	Tag   string
	Value string
}

func (c CAA) String() string { return fmt.Sprintf("%d %s %q", c.Flag, c.Tag, c.Value) }

// The parameters of RFC 8657.
const (
	paramAccount = "accounturi"
	paramMethods = "validationmethods"
	methodDNS    = "dns-01"
)

// issuer parts the value of issue and issuewild: who may issue, and how. An empty
// domain is nobody.
func (c CAA) issuer() (domain string, params map[string]string) {
	parts := strings.Split(c.Value, ";")
	params = map[string]string{}
	for _, p := range parts[1:] {
		if k, v, ok := strings.Cut(p, "="); ok {
			params[strings.ToLower(strings.TrimSpace(k))] = strings.TrimSpace(v)
		}
	}
	return strings.ToLower(strings.TrimSpace(parts[0])), params
}

// CAA returns the records that hold for a name, and the name at which they are:
// the nearest at or above it that has any.
func (r *Resolver) CAA(ctx context.Context, name string) (records []CAA, at string, err error) {
	at = strings.TrimPrefix(name, "*.")
	for {
		m, err := r.ask(ctx, at, dns.TypeCAA)
		if err != nil {
			return nil, "", err
		}
		for _, rr := range m.Answer {
			if c, ok := rr.(*dns.CAA); ok {
				records = append(records, CAA{c.Flag, strings.ToLower(c.Tag), c.Value})
			}
		}
		_, parent, more := strings.Cut(at, ".")
		if len(records) > 0 || !more {
			return records, at, nil
		}
		at = parent
	}
}

// JudgeCAA says why records let somebody else obtain certificates for names below
// or at the one they hold for, or do not let us; none: they do as they should.
// A client's own name is no wildcard, so "issue" counts for cells too. advice is
// about what could be better.
func JudgeCAA(records []CAA, identities []string, account string) (faults, advice []string) {
	with := func(tag string) []CAA {
		return slices.Collect(func(yield func(CAA) bool) {
			for _, c := range records {
				if c.Tag == tag && !yield(c) {
					return
				}
			}
		})
	}
	issue, wild := with("issue"), with("issuewild")
	if len(issue) == 0 {
		return []string{"no CAA record says who may issue, so any authority may"}, nil
	}
	ours := 0
	for _, c := range append(slices.Clone(issue), wild...) {
		domain, params := c.issuer()
		if domain == "" {
			continue // nobody
		}
		mine := len(identities) == 0 || slices.Contains(identities, domain)
		switch {
		case params[paramAccount] == "":
			faults = append(faults, fmt.Sprintf("%s lets any account of %s order", c, domain))
		case params[paramAccount] != account && mine:
			faults = append(faults, fmt.Sprintf("%s names another account than ours", c))
		case params[paramAccount] != account:
			faults = append(faults, fmt.Sprintf("%s lets an account of another authority order", c))
		case mine:
			ours++
			if params[paramMethods] != methodDNS {
				advice = append(advice, fmt.Sprintf("%s should say validationmethods=%s", c, methodDNS))
			}
		}
	}
	if ours == 0 && len(faults) == 0 {
		faults = append(faults, "no CAA record names our account, so the authority will refuse")
	}
	return faults, advice
}

// WantedCAA are the records to make at a name, as in a zone file.
func WantedCAA(name string, identities []string, account string) []string {
	at := dns.Fqdn(strings.TrimPrefix(name, "*."))
	if len(identities) == 0 {
		identities = []string{"AUTHORITY"}
	}
	var out []string
	for _, id := range identities[:1] { // the others are other names of it
		out = append(out, fmt.Sprintf("%s CAA 0 issue %q", at, fmt.Sprintf("%s; %s=%s; %s=%s", id, paramAccount, account, paramMethods, methodDNS)))
	}
	return out
}

// checkCAA returns a fault when the records of a name do not keep others from it.
func (r *Resolver) checkCAA(ctx context.Context, name string, identities []string, account string) error {
	records, at, err := r.CAA(ctx, name)
	if err != nil {
		return fault(CAARecord, err)
	}
	if faults, _ := JudgeCAA(records, identities, account); len(faults) > 0 {
		return fault(CAARecord, fmt.Errorf("acme: CAA records of %s (found at %s): %s: %w", name, at, strings.Join(faults, "; "), mesh.ErrDenied))
	}
	return nil
}
