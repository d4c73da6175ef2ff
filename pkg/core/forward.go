package core

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/meshctl/meshctl/pkg/relay"
)

// forward sends every stream to one address of the core owner's. The address
// is dialled before the stream is accepted, so that an entry can try another
// core when nothing answers here.
type forward struct {
	address string
	timeout time.Duration
	vigil   *relay.Vigil
	metrics *metrics
}

func (f *forward) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (f *forward) serve(ctx context.Context, in *relay.Incoming, l *lease) *refusal {
	ctx, cancel := in.Context(ctx)
	defer cancel()
	c, err := f.dial(ctx)
	f.metrics.dialled(err)
	if err != nil {
		code := relay.CodeUnreachable
		if errors.Is(err, context.DeadlineExceeded) {
			code = relay.CodeTimeout
		}
		return &refusal{code, true, "the service behind this core does not answer"}
	}
	st, err := in.Accept()
	if err != nil { // the entry has given up
		_ = c.Close() // nothing was sent on it
		return nil
	}
	l.shown.Store(true) // whoever comes has the device's name, and is asked for nothing else
	f.vigil.Add(c)
	defer f.vigil.Remove(c)
	relay.Join(ctx, st, c, &l.meter)
	return nil
}

func (f *forward) dial(ctx context.Context) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: relay.KeepAlive()}
	c, err := d.DialContext(ctx, "tcp", f.address)
	if err != nil {
		return nil, timely(ctx, err)
	}
	return c.(*net.TCPConn), nil
}
