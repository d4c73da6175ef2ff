package chores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	pingTime     = 10 * time.Second // for one request, redirects and all
	maxRedirects = 3
	maxAnswer    = 16 << 10 // bytes, of the head and of the body each
	maxURL       = 2 << 10
	retryFirst   = time.Second // after a failure at the earliest; later each time, up to the interval
)

// Ping is the dead-man ping: a URL that somebody else's watch expects to be
// asked for, and raises the alarm when it is not.
type Ping struct {
	URL      mesh.Secret // whoever has it can keep the watch quiet; "": no ping
	Interval time.Duration
}

// ParseURL checks a URL to ping. It returns ErrInvalid, without the URL.
func ParseURL(text mesh.Secret) (mesh.Secret, error) {
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(text.Reveal()) > maxURL {
		return "", fmt.Errorf("chores: URL to ping: want one of http or https with a host, at most %d bytes: %w", maxURL, mesh.ErrInvalid)
	}
	return text, nil
}

func (p Ping) order() *controlpb.PingOrder {
	if p.URL == "" {
		return nil
	}
	return &controlpb.PingOrder{Url: p.URL.Reveal(), IntervalNanos: int64(p.Interval)}
}

// redact takes the URL out of a text, and the parts of it that would do.
func (p Ping) redact(s string) string {
	if p.URL == "" {
		return s
	}
	pairs := []string{p.URL.Reveal(), "[redacted]"}
	if u, err := url.Parse(p.URL.Reveal()); err == nil {
		for _, part := range []string{u.EscapedPath(), u.Path, u.RawQuery, u.User.String(), u.Host} {
			if len(part) > 3 {
				pairs = append(pairs, part, "[redacted]")
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// requester makes the requests.
type requester struct{ client *http.Client }

func newRequester() *requester {
	return &requester{&http.Client{
		Timeout: pingTime,
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxAnswer,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			req.Header.Del("Referer") // it would be the URL
			if len(via) > maxRedirects || req.URL.Scheme != via[0].URL.Scheme {
				return errRedirect
			}
			return nil
		},
	}}
}

var errRedirect = errors.New("too many redirects, or one to another scheme")

// ask makes one request and says how it ended.
func (r *requester) ask(ctx context.Context, url string) *controlpb.PingOutcome {
	status, err := r.get(ctx, url)
	switch {
	case err != nil:
		return &controlpb.PingOutcome{Result: classify(err)}
	case status < 200 || status > 299:
		return &controlpb.PingOutcome{Result: controlpb.PingOutcome_STATUS, Status: uint32(status)}
	}
	return &controlpb.PingOutcome{Result: controlpb.PingOutcome_DONE}
}

func (r *requester) get(ctx context.Context, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", "meshctl")
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// Some watches want their answer read; what does not come is their matter.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, nil
}

// classify reduces an error, whose text has the URL, to a kind.
func classify(err error) controlpb.PingOutcome_Result {
	var timeout net.Error
	switch {
	case errors.Is(err, errRedirect):
		return controlpb.PingOutcome_REDIRECT
	case isA[*net.DNSError](err):
		return controlpb.PingOutcome_NAME
	case errors.As(err, &timeout) && timeout.Timeout():
		return controlpb.PingOutcome_TIMEOUT
	case isA[*tls.CertificateVerificationError](err), isA[tls.RecordHeaderError](err), isA[tls.AlertError](err), errors.Is(err, http.ErrSchemeMismatch):
		return controlpb.PingOutcome_CERTIFICATE
	case isA[*net.OpError](err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return controlpb.PingOutcome_CONNECTION
	}
	return controlpb.PingOutcome_OTHER
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// done is the outcome of a ping that arrived.
const done = "done"

// outcome is a word for metrics and a text for people. Both are chosen here: the
// child sends none.
func outcome(o *controlpb.PingOutcome) (word, text string) {
	switch o.GetResult() {
	case controlpb.PingOutcome_DONE:
		return done, ""
	case controlpb.PingOutcome_NAME:
		return "name", "the host's name was not resolved"
	case controlpb.PingOutcome_CONNECTION:
		return "connection", "no connection, or it was lost"
	case controlpb.PingOutcome_CERTIFICATE:
		return "certificate", "no TLS with a certificate to trust"
	case controlpb.PingOutcome_TIMEOUT:
		return "timeout", fmt.Sprintf("no answer within %v", pingTime)
	case controlpb.PingOutcome_STATUS:
		return "status", fmt.Sprintf("the answer was HTTP status %d", o.GetStatus())
	case controlpb.PingOutcome_REDIRECT:
		return "redirect", errRedirect.Error()
	}
	return "other", "it could not be made"
}

// outcomes are all words of outcome, sorted.
func outcomes() []string {
	var out []string
	for n := range controlpb.PingOutcome_Result_name {
		word, _ := outcome(&controlpb.PingOutcome{Result: controlpb.PingOutcome_Result(n)})
		out = append(out, word)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
