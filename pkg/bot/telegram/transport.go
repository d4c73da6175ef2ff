package telegram

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// PublicAPI is Telegram's own.
	PublicAPI = "https://api.telegram.org"

	pollTime = 50 * time.Second // how long the API holds a poll open
	callTime = 25 * time.Second // for any other call, and for a poll beside pollTime
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 16 << 20
	// innerURL is where telebot believes the API to be; the transport puts the real one in its place.
	innerURL = "http://telegram.invalid"
)

// ParseAPI checks the address of an API. It returns ErrInvalid.
func ParseAPI(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("telegram: address of the API %q: want a URL of http or https, with a host: %w", mesh.Quotable(text), mesh.ErrInvalid)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// ParseProxy checks the address of a proxy; "" is none. It returns ErrInvalid,
// without the address, which may hold a password.
func ParseProxy(text mesh.Secret) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, fmt.Errorf("telegram: address of the proxy: want a URL of http, https or socks5, with a host: %w", mesh.ErrInvalid)
	}
	return u, nil
}

// transport is below telebot: it knows where the API is and the token, bounds
// what comes back, and turns every failure into an *Error.
type transport struct {
	token mesh.Secret
	apis  []string
	used  atomic.Uint32 // which of apis
	// atEnd has its argument called when the client's time is over, unless it is
	// stopped before; telebot passes no context on.
	atEnd func(func()) (stop func() bool)
	inner http.RoundTripper
}

func newTransport(ctx context.Context, token mesh.Secret, apis []string, proxy *url.URL) *transport {
	atEnd := func(f func()) func() bool { return context.AfterFunc(ctx, f) }
	inner := &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: callTime,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if proxy != nil {
		inner.Proxy = http.ProxyURL(proxy)
	}
	return &transport{token: token, apis: apis, atEnd: atEnd, inner: inner}
}

// next has another address of the API used.
func (t *transport) next() {
	if n := uint32(len(t.apis)); n > 1 {
		t.used.Store((t.used.Load() + 1) % n)
	}
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	method := path.Base(req.URL.Path)
	limit := callTime
	if method == "getUpdates" {
		limit += pollTime
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	defer cancel()
	defer t.atEnd(cancel)()
	data, status, err := t.ask(req.Clone(ctx), method)
	if err != nil {
		return nil, &Error{Failure: Network, Description: unreached(err)}
	}
	if err := judge(data, status); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}, nil
}

func (t *transport) ask(req *http.Request, method string) ([]byte, int, error) {
	to, err := url.Parse(t.apis[t.used.Load()] + "/bot" + t.token.Reveal() + "/" + method)
	if err != nil {
		return nil, 0, errors.New("the address of the API is none")
	}
	req.URL, req.Host, req.Close = to, to.Host, false
	req.Header.Set("User-Agent", "meshctl")
	resp, err := t.inner.RoundTrip(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if len(data) > maxAnswer {
		return nil, 0, errTooLarge
	}
	return data, resp.StatusCode, err
}

var errTooLarge = errors.New("the answer is too large")

// judge says what is wrong with an answer.
func judge(data []byte, status int) error {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return &Error{Failure: Server, Code: status, Description: "the answer is not the API's"}
	}
	if !a.OK {
		return a.failed(status)
	}
	return nil
}

// unreached says why there was no answer, in words of ours: others' have
// addresses in them.
func unreached(err error) string {
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "called off"
	}
	return "no connection, or it was lost"
}
