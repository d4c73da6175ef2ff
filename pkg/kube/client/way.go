package client

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// way sends requests with the credential, and none while the API wants to be left
// alone.
type way struct {
	wire  http.RoundTripper
	token string

	mu    sync.Mutex
	until time.Time // guarded by mu: no request before
}

// maxRest bounds how long an API can have itself left alone.
const maxRest = 5 * time.Minute

func (w *way) RoundTrip(req *http.Request) (*http.Response, error) {
	if rest := w.rest(); rest > 0 {
		return nil, &limitedError{after: rest}
	}
	if w.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	res, err := w.wire.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	// The library would wait and try again itself; the back-off is the keeper's.
	if after, ok := restAsked(res); ok {
		res.Body.Close()
		w.mu.Lock()
		w.until = time.Now().Add(after)
		w.mu.Unlock()
		return nil, &limitedError{after: after}
	}
	if req.URL.Query().Get("watch") == "" {
		res.Body = &bounded{ReadCloser: res.Body, left: maxBody}
	}
	return res, nil
}

func (w *way) rest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.until)
}

// restAsked says how long the API wants to be left alone.
func restAsked(res *http.Response) (time.Duration, bool) {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	switch {
	case res.StatusCode == http.StatusTooManyRequests && (err != nil || seconds <= 0):
		return time.Second, true
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= 500 && err == nil && seconds > 0:
		return min(time.Duration(min(seconds, 3600))*time.Second, maxRest), true
	}
	return 0, false
}

// bounded fails when a body is longer than it may be.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
