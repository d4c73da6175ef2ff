package repo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// dialHTTP begins Git's "smart" protocol over https.
func dialHTTP(ctx context.Context, rm Remote, s service) (link, error) {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     &tls.Config{RootCAs: rm.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 30 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	l := &httpLink{rm: rm, service: s, transport: t, base: strings.TrimSuffix(rm.URL, "/")}
	l.client = &http.Client{Transport: t, CheckRedirect: l.redirect}
	const tail = "/info/refs?service="
	resp, err := l.do(ctx, http.MethodGet, l.base+tail+string(s), nil, 0, "advertisement")
	if err != nil {
		t.CloseIdleConnections()
		return nil, err
	}
	l.body = resp.Body
	// A redirected question has moved the repository.
	if base, ok := strings.CutSuffix(resp.Request.URL.String(), tail+string(s)); ok {
		l.base = base
	}
	return l, nil
}

type httpLink struct {
	rm        Remote
	service   service
	base      string
	client    *http.Client
	transport *http.Transport
	body      io.ReadCloser
}

// redirect follows the first question within the same server, where the token
// may go; everything else is refused.
func (l *httpLink) redirect(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > 3 || req.Method != http.MethodGet || via[0].Method != http.MethodGet ||
		req.URL.Scheme != from.Scheme || req.URL.Host != from.Host {
		return faultf(ReasonRefused, "the remote sends us elsewhere: %w", mesh.ErrDenied)
	}
	l.login(req)
	return nil
}

func (l *httpLink) login(req *http.Request) {
	if l.rm.Auth == mesh.BackupAuthToken {
		req.SetBasicAuth(l.rm.User, strings.TrimSpace(l.rm.Credential.Reveal()))
	}
}

func (l *httpLink) do(ctx context.Context, method, url string, body io.Reader, size int64, want string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("URL is not readable: %w", mesh.ErrInvalid)
	}
	req.URL.User = nil
	l.login(req)
	req.Header.Set("User-Agent", "git/2.0 (meshctl)")
	if body != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/x-"+string(l.service)+"-request")
		req.Header.Set("Accept", "application/x-"+string(l.service)+"-result")
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, httpFault(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(l.status(resp.StatusCode), resp.Body.Close())
	}
	if kind := "application/x-" + string(l.service) + "-" + want; resp.Header.Get("Content-Type") != kind {
		return nil, errors.Join(faultf(ReasonFormat, "the remote does not speak Git's smart protocol: it answers with %s: %w",
			quote(resp.Header.Get("Content-Type")), mesh.ErrInvalid), resp.Body.Close())
	}
	return resp, nil
}

func httpFault(err error) error {
	var cert *tls.CertificateVerificationError
	switch _, known := errors.AsType[*Fault](err); {
	case known:
		return err
	case errors.As(err, &cert):
		return faultf(ReasonTLS, "connect: %w: %w", err, mesh.ErrDenied)
	case ReasonOf(err) == ReasonOther:
		return faultf(ReasonConnection, "connect: %w: %w", err, mesh.ErrUnavailable)
	default:
		return fmt.Errorf("connect: %w: %w", err, mesh.ErrUnavailable)
	}
}

func (l *httpLink) status(code int) error {
	text := fmt.Sprintf("the remote answers %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return mesh.WithHint(faultf(ReasonAuth, "%s: %w", text, mesh.ErrDenied), "the token is missing, wrong, ended, or may not write there")
	case code == http.StatusNotFound:
		return mesh.WithHint(faultf(ReasonMissing, "%s: %w", text, mesh.ErrNotFound), "the repository does not exist, or the token may not see it")
	case code == http.StatusTooManyRequests, code >= 500:
		return faultf(ReasonConnection, "%s: %w", text, mesh.ErrUnavailable)
	default:
		return faultf(ReasonRefused, "%s: %w", text, mesh.ErrDenied)
	}
}

func (l *httpLink) advertised() io.Reader { return l.body }
func (l *httpLink) said() string          { return "" }

func (l *httpLink) ask(ctx context.Context, body io.Reader, size int64) (io.Reader, error) {
	if err := l.body.Close(); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	resp, err := l.do(ctx, http.MethodPost, l.base+"/"+string(l.service), body, size, "result")
	if err != nil {
		l.body = http.NoBody
		return nil, err
	}
	l.body = resp.Body
	return resp.Body, nil
}

func (l *httpLink) close() error {
	err := l.body.Close()
	l.transport.CloseIdleConnections()
	return err
}
