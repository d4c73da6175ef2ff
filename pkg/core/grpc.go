package core

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxFirst bounds what is kept of a call until it is known who calls.
const maxFirst = 16 << 10

// call is a call of gRPC of which each message carries some bytes ("gun").
type call struct {
	*exchange
	messages *clientproto.HunkReader
	writer   *clientproto.HunkWriter
}

// isCall says whether a request is one of the calls of the services named.
func isCall(r *http.Request, services map[string]bool) bool {
	service, method := path.Split(r.URL.Path)
	return r.Method == http.MethodPost && r.ProtoMajor == 2 && (method == "Tun" || method == "TunMulti") &&
		services[strings.Trim(service, "/")] && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// grpc serves a call. Without credentials in its first message it gets the web
// server's answer to the same request.
func (h *handler) grpc(w http.ResponseWriter, r *http.Request, g guest) {
	e := newExchange(w, r)
	// What is read until it is known who calls goes to the web server else. It is
	// not much of a client, and no more is kept of others: messages may be empty.
	first := new(bytes.Buffer)
	body := &switched{r: io.TeeReader(io.LimitReader(r.Body, maxFirst), first)}
	c := &call{exchange: e, messages: clientproto.NewHunkReader(body), writer: &clientproto.HunkWriter{W: e.out, Flush: e.flush}}
	br := bufio.NewReaderSize(c, firstBytes)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(h.limits.HeaderTime)) // a stream that ended tells when it is read
	protocol, err := recognise(br, g.device, h.ways.Load(), mesh.TransportGRPC)
	if err != nil || protocol == "" {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(first, r.Body), r.Body}
		h.site(w, r)
		return
	}
	body.r = r.Body
	w.Header().Set("Content-Type", "application/grpc")
	w.WriteHeader(http.StatusOK)
	if err := e.flush(); err != nil {
		return // the client is gone
	}
	g.settle = func() error { return rc.SetReadDeadline(time.Time{}) }
	ctx, cancel := h.beyond(r)
	defer cancel()
	if err := h.speak(ctx, protocol, mesh.TransportGRPC, g, c, br); err != nil {
		h.log.Debug("call ended", "err", err)
		panic(http.ErrAbortHandler) // resets this call, and no other
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// switched is a reader that can be replaced between two reads.
type switched struct{ r io.Reader }

// Read implements io.Reader.
func (s *switched) Read(p []byte) (int, error) { return s.r.Read(p) }

// Read implements io.Reader.
func (c *call) Read(p []byte) (int, error) {
	n, err := c.messages.Read(p)
	return n, c.readError(err)
}

// Write implements io.Writer.
func (c *call) Write(p []byte) (int, error) { return c.writer.Write(p) }
