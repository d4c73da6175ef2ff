package entry

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/meshctl/meshctl/pkg/clienthello"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// flow is one client connection.
type flow struct {
	s     *Server
	conn  *net.TCPConn
	start time.Time
	trace string

	client   netip.AddrPort
	source   netip.Addr // counted, if valid
	name     mesh.ServerName
	device   mesh.DeviceID
	core     string
	relayed  bool
	up, down int64
}

// handle serves one connection from beginning to end. life ends when it must be
// cut.
func (s *Server) handle(life context.Context, c *net.TCPConn) {
	defer s.open.Add(-1)
	f := &flow{s: s, conn: c, start: time.Now(), trace: rand.Text()}
	reason, err := f.run(life)
	if !f.relayed {
		relay.Abort(c, relay.CodeUnspecified)
	}
	if f.source.IsValid() {
		s.sources.give(f.source)
	}
	s.metrics.end(f, reason)
	s.Log.Debug("connection ended", "trace", f.trace, "reason", reason, "from", f.client, "name", f.name,
		"device", f.device, "core", f.core, "up", f.up, "down", f.down, "took", time.Since(f.start), "err", err)
}

func (f *flow) run(life context.Context) (Reason, error) {
	// Until the connection is relayed, nothing else notices the end of life.
	stop := context.AfterFunc(life, func() { relay.Abort(f.conn, relay.CodeUnspecified) })
	defer stop()
	hello, reason, err := f.receive()
	switch {
	case life.Err() != nil:
		return ofEnd(context.Cause(life)), context.Cause(life)
	case err != nil:
		return reason, err
	}
	if f.name, err = mesh.ParseServerName(hello.ServerName); err != nil {
		return BadSNI, err
	}
	if !f.s.Settings.serves(f.name) {
		return UnknownSuffix, errors.New("entry: not a name of this mesh")
	}
	route, targets, err := f.s.Router.Lookup(life, f.name)
	if err != nil {
		reason := ofLookup(err)
		if reason == NoRoute {
			f.s.misses.add(f.name)
		}
		return reason, err
	}
	f.device = route.Device
	end := endOf(route)
	if !end.IsZero() && !time.Now().Before(end) {
		return Expired, fmt.Errorf("entry: the route ended at %v", end.UTC())
	}
	if !f.s.devices.take(route.Device, route.Limits.Connections) {
		return LimitDevice, fmt.Errorf("entry: the device has %d connections", route.Limits.Connections)
	}
	defer f.s.devices.give(route.Device)
	ctx, cancel := until(life, end)
	defer cancel()
	st, reason, err := f.connect(ctx, route, targets)
	if err != nil {
		return reason, err
	}
	stop()
	f.s.metrics.setup.Observe(time.Since(f.start).Seconds())
	return f.relay(ctx, st, hello.Raw)
}

// endOf is when the route's service ends, zero if it does not.
func endOf(r mesh.Route) time.Time {
	end := r.Limits.Expires
	if end.IsZero() || !r.Until.IsZero() && r.Until.Before(end) {
		end = r.Until
	}
	return end
}

func until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, &relay.ResetError{Code: relay.CodeExpired})
}

// receive reads up to the end of the ClientHello, within one deadline for all
// of it.
func (f *flow) receive() (clienthello.Hello, Reason, error) {
	err := errors.Join(
		f.conn.SetKeepAliveConfig(relay.KeepAlive()),
		f.conn.SetReadDeadline(f.start.Add(f.s.HelloTimeout)),
	)
	if err != nil {
		return clienthello.Hello{}, ClientGone, fmt.Errorf("entry: prepare connection: %w", err)
	}
	w := &waiting{conn: f.conn}
	f.s.hellos.add(w)
	hello, reason, err := f.read()
	if f.s.hellos.remove(w) {
		return hello, LimitHellos, errors.New("entry: too many connections without a hello")
	}
	if err == nil {
		err = f.conn.SetReadDeadline(time.Time{})
		reason = ClientGone
	}
	return hello, reason, err
}

func (f *flow) read() (hello clienthello.Hello, reason Reason, err error) {
	peer := f.conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	f.client = netip.AddrPortFrom(peer.Addr().Unmap().WithZone(""), peer.Port())
	var r io.Reader = f.conn
	proxied := f.s.Proxies.trusts(f.client.Addr())
	if proxied {
		client, rest, err := readProxy(f.conn, f.s.Proxies.Required)
		switch {
		case errors.Is(err, errProxy):
			return hello, BadProxy, err
		case err != nil:
			return hello, ofHello(err), err
		}
		if len(rest) > 0 {
			r = io.MultiReader(bytes.NewReader(rest), f.conn)
		}
		if client.IsValid() {
			f.client, proxied = client, false
		}
	}
	// A balancer speaking for itself is not one client among others.
	if source := sourceOf(f.client.Addr()); !proxied {
		if !f.s.sources.take(source, f.s.limits.PerSource) {
			return hello, LimitSource, errors.New("entry: too many connections of one source")
		}
		f.source = source
	}
	hello, err = clienthello.Peek(r)
	if err != nil {
		return hello, ofHello(err), err
	}
	return hello, "", nil
}

// relay passes the hello's bytes and then everything, both ways.
func (f *flow) relay(ctx context.Context, st *relay.Stream, hello []byte) (Reason, error) {
	f.relayed = true
	stop := context.AfterFunc(ctx, func() { st.Reset(relay.CodeGoingAway) })
	m := f.s.cores.meter(f.core)
	n, err := st.Write(hello)
	f.up = int64(n)
	m.Up.Add(f.up)
	if stopped := stop(); err != nil || !stopped {
		relay.Abort(f.conn, relay.CodeUnspecified)
		relay.Abort(st, relay.CodeGoingAway)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return ofEnd(err), err
	}
	f.s.vigil.Add(f.conn)
	defer f.s.vigil.Remove(f.conn)
	sum := relay.Join(ctx, f.conn, st, m)
	f.up += sum.Up
	f.down = sum.Down
	return ofEnd(sum.Err), sum.Err
}
