package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	xacme "golang.org/x/crypto/acme"
)

// Failure is why there is no certificate.
type Failure string

// Failures.
const (
	Name       Failure = "name"       // the directory's host was not resolved
	Connection Failure = "connection" // none came about, or it was lost
	TLS        Failure = "tls"        // the directory has no certificate to trust
	Timeout    Failure = "timeout"    // it went on for too long
	Account    Failure = "account"    // the authority does not take the account
	RateLimit  Failure = "rate-limit" // too many orders
	Refused    Failure = "refused"    // by the authority, for another reason
	CAARecord  Failure = "caa"        // CAA records do not keep others from the name
	Record     Failure = "dns"        // the record could not be written
	Unseen     Failure = "dns-unseen" // the record did not reach the servers of the zone
	Chain      Failure = "chain"      // what came is no certificate for the request
	Settings   Failure = "settings"   // what was ordered makes no sense
	Other      Failure = "other"
)

// words are what failures are for people.
func words() map[Failure]string {
	return map[Failure]string{
		Name:       "the name of the authority's directory was not resolved",
		Connection: "no connection to the authority, or it is in trouble",
		TLS:        "the authority's directory has no certificate to trust",
		Timeout:    "it went on for too long",
		Account:    "the authority does not take the account",
		RateLimit:  "the authority has had too many orders",
		Refused:    "the authority refused",
		CAARecord:  "CAA records",
		Record:     "the DNS record could not be written",
		Unseen:     "the DNS record did not reach the servers of its zone",
		Chain:      "what the authority sent is no certificate for the request",
		Settings:   "the settings do not fit",
		Other:      "it did not go well",
	}
}

// ParseFailure takes the spelling of a failure; what is not known is Other, and
// "" is none.
func ParseFailure(s string) Failure {
	if _, ok := words()[Failure(s)]; ok || s == "" {
		return Failure(s)
	}
	return Other
}

// Text is the failure for people.
func (f Failure) Text() string { return words()[f] }

// Ours says whether it failed before the authority had to do anything that it
// counts.
func (f Failure) Ours() bool {
	switch f {
	case Name, Connection, TLS, CAARecord, Record, Unseen, Settings:
		return true
	}
	return false
}

// faulty is an error of which it is known what it is.
type faulty struct {
	failure Failure
	error
}

func (f *faulty) Unwrap() error { return f.error }

func fault(f Failure, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*faulty](err); ok {
		return err
	}
	return &faulty{f, err}
}

// FailureOf says what an error is.
func FailureOf(err error) Failure {
	if f, ok := errors.AsType[*faulty](err); ok {
		return f.failure
	}
	if p := problemOf(err); p != nil {
		return refusal(p)
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case isA[*net.DNSError](err):
		return Name
	case isA[*tls.CertificateVerificationError](err), isA[tls.RecordHeaderError](err), isA[tls.AlertError](err), errors.Is(err, http.ErrSchemeMismatch):
		return TLS
	case isA[*net.OpError](err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Connection
	}
	return Other
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// problemOf is what an authority said, if it is that.
func problemOf(err error) *xacme.Error {
	if o, ok := errors.AsType[*xacme.OrderError](err); ok && o.Problem != nil {
		return o.Problem
	}
	if a, ok := errors.AsType[*xacme.AuthorizationError](err); ok {
		for _, e := range a.Errors {
			if p := problemOf(e); p != nil {
				return p
			}
		}
	}
	if p, ok := errors.AsType[*xacme.Error](err); ok {
		return p
	}
	return nil
}

func refusal(p *xacme.Error) Failure {
	kind := strings.ToLower(p.ProblemType[strings.LastIndexByte(p.ProblemType, ':')+1:])
	switch kind {
	case "ratelimited":
		return RateLimit
	case "accountdoesnotexist", "externalaccountrequired", "invalidcontact", "unsupportedcontact", "useractionrequired":
		return Account
	case "caa":
		return CAARecord
	case "serverinternal":
		return Connection
	}
	return Refused
}

// RetryAfter is how long the authority wants to be left alone; 0: it did not say.
func RetryAfter(err error) time.Duration {
	if p := problemOf(err); p != nil {
		d, _ := xacme.RateLimit(p)
		return d
	}
	return 0
}

// Detail is what there is to say about an error beside what it is.
func Detail(err error) string {
	if p := problemOf(err); p != nil {
		texts := []string{p.Detail}
		for _, s := range p.Subproblems {
			texts = append(texts, s.Detail)
		}
		return strings.Join(texts, "; ")
	}
	return err.Error()
}
