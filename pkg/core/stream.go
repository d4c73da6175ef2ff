package core

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// egress lets one admitted stream out. Exactly one of accept and refuse of in
// is called; serve returns when the stream is over.
type egress interface {
	serve(ctx context.Context, in *relay.Incoming, l *lease) *refusal
	// run does what all streams share, until ctx ends.
	run(ctx context.Context) error
}

// stream takes one stream from offer to end.
func (s *Server) stream(ctx context.Context, in *relay.Incoming) {
	h := in.Header()
	ctx, l, no := s.admit(ctx, h)
	if no == nil {
		began := time.Now()
		no = s.egress.serve(ctx, in, l)
		s.devices.release(l)
		s.Log.Debug("stream ended", "device", h.Device, "trace", h.Trace, "took", time.Since(began),
			"up", l.meter.Up.Load(), "down", l.meter.Down.Load())
	}
	if no == nil {
		return
	}
	s.metrics.refused.WithLabelValues(no.code.String()).Inc()
	s.Log.Debug("stream refused", "device", h.Device, "trace", h.Trace, "code", no.code.String(), "reason", no.text)
	if err := in.Refuse(no.code, no.retryable, no.text); err != nil {
		s.Log.Debug("refusal not sent", "trace", h.Trace, "err", err)
	}
}

// admit checks the entry's claims about a stream.
func (s *Server) admit(ctx context.Context, h relay.Header) (context.Context, *lease, *refusal) {
	no := func(code relay.Code, retryable bool, text string) (context.Context, *lease, *refusal) {
		return nil, nil, &refusal{code, retryable, text}
	}
	c := s.applied.Load()
	switch {
	case s.stopping.Load():
		return no(relay.CodeDraining, true, "the core is stopping")
	case c == nil:
		return no(relay.CodeInternal, true, "the core has no configuration yet")
	case c.drain || s.drained.Load():
		return no(relay.CodeDraining, true, "the core is drained")
	}
	name, err := mesh.ParseServerName(h.ServerName)
	if err != nil {
		return no(relay.CodeBadHeader, false, "not a server name")
	}
	if !name.Under(c.suffix) {
		return no(relay.CodeUnknownDevice, true, "not a name of this core's cell")
	}
	return s.devices.admit(ctx, mesh.DeviceID(h.Device), name, time.Now())
}

// metered is the client's end of a stream with its bytes counted.
type metered struct {
	*relay.Stream
	lease  *lease
	once   sync.Once
	closed chan struct{}
	jobs   chan job // has room for the one there can be
}

// job is what net/http leaves to the goroutine of a stream.
type job func(ctx context.Context) error

func meter(st *relay.Stream, l *lease) *metered {
	return &metered{Stream: st, lease: l, closed: make(chan struct{}), jobs: make(chan job, 1)}
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Stream.Read(b)
	m.lease.meter.Up.Add(int64(n))
	return n, err
}

func (m *metered) Write(b []byte) (int, error) {
	n, err := m.Stream.Write(b)
	m.lease.meter.Down.Add(int64(n))
	return n, err
}

// Close closes the stream and tells who waits for its end.
func (m *metered) Close() error {
	err := m.Stream.Close()
	m.once.Do(func() { close(m.closed) })
	return err
}

// WriteTo implements io.WriterTo, so that no byte passes the meter by.
func (m *metered) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{m})
}

// NetConn lets relay.Join reset the stream itself.
func (m *metered) NetConn() net.Conn { return m.Stream }

// resetCode is what the end of ctx tells a stream.
func resetCode(ctx context.Context) relay.Code {
	if e, ok := context.Cause(ctx).(*relay.ResetError); ok {
		return e.Code
	}
	return relay.CodeGoingAway
}
