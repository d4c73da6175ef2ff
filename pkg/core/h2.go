package core

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// exchange is one request of HTTP/2 whose two bodies carry bytes both ways.
type exchange struct {
	in    io.ReadCloser
	out   io.Writer
	flush func() error
	over  atomic.Bool // this side has said all
}

func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{in: r.Body, out: w, flush: http.NewResponseController(w).Flush}
}

// Read implements io.Reader.
func (e *exchange) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && e.over.Load() {
		err = io.EOF // by CloseWrite
	}
	return n, err
}

// Write implements io.Writer.
func (e *exchange) Write(p []byte) (int, error) {
	n, err := e.out.Write(p)
	if err == nil {
		err = e.flush()
	}
	return n, err
}

// CloseWrite ends both directions: net/http says that an answer is complete
// only when the handler returns, and takes no more of the request then.
func (e *exchange) CloseWrite() error {
	e.over.Store(true)
	return e.in.Close()
}

// Close implements io.Closer. The stream of HTTP/2 ends with its handler.
func (e *exchange) Close() error { return e.in.Close() }

// connectH2 carries a tunnel in the bodies of a CONNECT (RFC 9113, 8.5).
func (h *handler) connectH2(w http.ResponseWriter, r *http.Request, dst *outbound) {
	w.WriteHeader(http.StatusOK)
	e := newExchange(w, r)
	if err := e.flush(); err != nil {
		_ = dst.Close() // nothing was sent on it
		return
	}
	if err := h.join(r.Context(), e, dst); err != nil {
		panic(http.ErrAbortHandler) // resets this stream of HTTP/2, and no other
	}
}
