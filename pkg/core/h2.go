package core

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
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
	return n, e.readError(err)
}

// readError tells who has ended in good order from who was lost.
func (e *exchange) readError(err error) error {
	if err != nil && (e.over.Load() || isCancelled(err)) {
		return io.EOF
	}
	return err
}

// streamError has the form of the error of that name in net/http, which looks
// for the form.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "core: stream of HTTP/2 reset" }

// isCancelled says whether the client has reset the stream because it needs it
// no more (RFC 9113, 7): clients end calls of gRPC so, though they sent all.
func isCancelled(err error) bool {
	e, ok := errors.AsType[streamError](err)
	return ok && (e.Code == 0x0 || e.Code == 0x8)
}

// beyond returns a context that ends some time after r has, and at once with the
// connection that it came on.
func (h *handler) beyond(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	m, ok := streamOf(r)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(r.Context(), func() {
		defer cancel()
		late := time.NewTimer(h.linger)
		defer late.Stop()
		select {
		case <-late.C:
		case <-m.closed:
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
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
	ctx, cancel := h.beyond(r)
	defer cancel()
	if err := h.join(ctx, e, dst); err != nil {
		panic(http.ErrAbortHandler) // resets this stream of HTTP/2, and no other
	}
}
