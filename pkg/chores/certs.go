package chores

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Certs is the server's side of certificates from public authorities: what is to
// be ordered, and what came of it. The child speaks to the authority and to the
// name servers. It has the account's key and what writes DNS records in memory,
// and the key of no certificate.
//
// Any method may be called from any goroutine. What the child gives is not
// checked.
type Certs interface {
	// Lead is called whenever this server takes the office, and returns when ctx
	// ends, which is when the office is given back.
	Lead(ctx context.Context) error
	// Order is what the child is to do now; nil: nothing. It waits for nothing.
	// It is asked every two seconds, and after Foreman.Wake.
	Order() *CertsOrder
	// Ended takes note of how a request ended. It waits for nothing.
	Ended(CertOutcome)
}

// CertsOrder asks for certificates. What is added or taken away lets the rest go
// on; with any other change all begins anew.
type CertsOrder struct {
	Directory, Roots, Contact, External string
	ExternalKey, AccountKey, Credential mesh.Secret
	DNS                                 mesh.DNSProvider // its credential is Credential
	AllowMissingCAA                     bool
	Requests                            []CertRequest
}

// CertRequest is one thing to be done once: a certificate, or with an empty Name
// to look the account up.
type CertRequest struct {
	ID      string
	Attempt uint64
	Name    string
	Request []byte // PKCS #10, DER
}

// CertOutcome is how one request ended.
type CertOutcome struct {
	ID         string
	Attempt    uint64
	Chain      [][]byte
	Failure    acme.Failure // "": none
	Detail     string       // for people
	RetryAfter time.Duration
	Account    string
	Identities []string
}

func (o *CertsOrder) proto() *controlpb.CertsOrder {
	if o == nil {
		return nil
	}
	out := &controlpb.CertsOrder{
		Directory: o.Directory, Roots: o.Roots, Contact: o.Contact, External: o.External,
		ExternalKey: o.ExternalKey.Reveal(), AccountKey: o.AccountKey.Reveal(), AllowMissingCaa: o.AllowMissingCAA,
		Dns: &controlpb.CertsDNS{
			Kind: string(o.DNS.Kind), Server: o.DNS.Server, Zone: o.DNS.Zone, KeyName: o.DNS.KeyName, Algorithm: o.DNS.Algorithm,
			Credential: o.Credential.Reveal(), Resolvers: o.DNS.Resolvers,
		},
	}
	for _, r := range o.Requests {
		out.Requests = append(out.Requests, &controlpb.CertRequest{Id: r.ID, Attempt: r.Attempt, Name: r.Name, Request: r.Request})
	}
	return out
}

// maxDetail bounds what is kept of another's words, in bytes.
const maxDetail = 500

func certOutcomeOf(o *controlpb.CertOutcome, ordered *controlpb.CertsOrder) CertOutcome {
	detail := printable(hideCerts(ordered, o.GetDetail()))
	return CertOutcome{
		ID: o.GetId(), Attempt: o.GetAttempt(), Chain: o.GetChain(), Failure: acme.ParseFailure(o.GetFailure()), Detail: detail,
		RetryAfter: time.Duration(o.GetRetryNanos()), Account: o.GetAccount(), Identities: o.GetIdentities(),
	}
}

// printable is a text on one line, cut to maxDetail.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}

// hideCerts takes the secrets of an order out of a text.
func hideCerts(o *controlpb.CertsOrder, s string) string {
	return conceal(s, o.GetAccountKey(), o.GetExternalKey(), o.GetDns().GetCredential())
}

// ordersCerts returns what the child is told to order, nil when it is nothing.
func (f *Foreman) ordersCerts() *controlpb.CertsOrder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.jobs.certs
}

// leadCerts keeps the server's side at work while this server leads.
func (f *Foreman) leadCerts(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.Certs.Lead(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("orders of certificates ended", "err", err, "delay", againTime)
		}
		wait(ctx, againTime)
	}
}
