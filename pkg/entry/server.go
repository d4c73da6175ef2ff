package entry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// Router answers where a server name leads: the route, and the targets of its
// hops as far as they are known, in the order of the hops. It returns
// mesh.ErrNotFound or mesh.ErrUnavailable, and bounds its own time.
type Router interface {
	Lookup(ctx context.Context, name mesh.ServerName) (mesh.Route, []mesh.Target, error)
}

// Server is the entrance.
type Server struct {
	Router      Router
	Node        *identity.Node
	Revocations *identity.Revocations
	Settings    *Settings // as management says; see Control

	Limits  Limits
	Proxies Proxies
	// HelloTimeout bounds the time from accept to a complete ClientHello, PROXY
	// header included. 0: 5 s.
	HelloTimeout time.Duration
	// DialTimeout bounds the way to a session with a core, OpenTimeout the way
	// to its answer, both for each core that is tried. 0: 3 s and 10 s.
	DialTimeout, OpenTimeout time.Duration
	// HedgeAfter is how long a core may take to answer before the next one of the
	// route is asked as well. 0: 1 s.
	HedgeAfter time.Duration
	// Recheck is how often a core that fell silent, and that no client asks, is
	// asked again. 0: 30 s.
	Recheck time.Duration
	// Relay configures sessions; Sessions is how many there are per core. 0: 4.
	Relay    relay.Config
	Sessions int
	// DrainWait is the time between "not ready" and the end of accepting, for
	// a balancer to notice. DrainLimit is how long open connections may then
	// go on. 0: none and 10 min.
	DrainWait, DrainLimit time.Duration
	// Policy is told to management; nil: the entry is no pod.
	Policy *PolicyProbe

	Metrics prometheus.Registerer // nil: none
	Log     *slog.Logger

	limits  Limits
	pool    atomic.Pointer[relay.Pool] // nil before Serve
	cores   cores
	misses  misses
	metrics *metrics
	sources counter[netip.Addr]
	devices counter[mesh.DeviceID]
	hellos  hellos
	vigil   relay.Vigil
	open    atomic.Int64
	state   atomic.Int32
}

// States of a Server.
const (
	stateNew int32 = iota
	stateServing
	stateDraining
)

// flushTime bounds how long sessions may take to end once no connection is left.
const flushTime = 2 * time.Second

// errDrained is why connections are cut when the drain's limit is reached.
var errDrained = &drainedError{}

// drainedError chooses the code that the core is told.
type drainedError struct{}

func (*drainedError) Error() string { return "entry: drain limit reached" }

func (*drainedError) Unwrap() error { return &relay.ResetError{Code: relay.CodeDraining} }

// Listen opens the clients' listener: plain TCP, since multipath TCP would keep
// the kernel from splicing, and its clients fall back by themselves.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1} // set per connection
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("entry: listen: %w", err)
	}
	return ln, nil
}

// Serving says whether the entry has started: it accepts, and has its
// configuration. A drained entry has started as well.
func (s *Server) Serving() bool { return s.state.Load() != stateNew && s.Settings.known() }

// Ready says why no client should be sent here, or nil.
func (s *Server) Ready(context.Context) error {
	switch {
	case s.state.Load() == stateNew:
		return errors.New("not serving yet")
	case s.state.Load() == stateDraining || s.Settings.drain():
		return errors.New("draining")
	case !s.Settings.known():
		return errors.New("no configuration from management yet")
	}
	return nil
}

// Serve accepts connections on ln until ctx ends, then drains, and closes ln. It
// returns nil once every connection has ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.prepare(); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer s.metrics.all().Unregister(s.Metrics)

	// Connections and sessions outlive ctx until they are cut.
	life, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	partsLife, endParts := context.WithCancel(context.WithoutCancel(ctx))
	var parts, conns sync.WaitGroup
	var poolErr error
	parts.Go(func() { poolErr = s.pool.Load().Run(partsLife) })
	parts.Go(func() { s.vigil.Run(partsLife) })
	parts.Go(func() { s.recheck(partsLife) })

	accepted := make(chan error, 1)
	go func() { accepted <- s.accept(ln, func(c *net.TCPConn) { conns.Go(func() { s.handle(life, c) }) }) }()
	s.state.Store(stateServing)
	s.Log.Info("entry started", "addr", ln.Addr().String())

	var acceptErr error
	select {
	case acceptErr = <-accepted:
		s.state.Store(stateDraining)
	case <-ctx.Done():
		s.state.Store(stateDraining)
		pause(life, s.DrainWait)
		acceptErr = errors.Join(ln.Close(), <-accepted)
	}
	s.drain(&conns, cut)
	s.flush(life)
	endParts()
	parts.Wait()
	return errors.Join(acceptErr, poolErr)
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// drain lets the open connections finish, up to the limit, then cuts the rest.
func (s *Server) drain(conns *sync.WaitGroup, cut context.CancelCauseFunc) {
	start, open := time.Now(), s.open.Load()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conns.Wait()
	}()
	limit := time.NewTimer(s.DrainLimit)
	defer limit.Stop()
	var left int64
	select {
	case <-done:
	case <-limit.C:
		left = s.open.Load()
		cut(errDrained)
		<-done
	}
	s.Log.Info("entry drained", "open", open, "cut", left, "took", time.Since(start))
}

// flush lets the sessions end in good order, so that what connections sent last
// still arrives.
func (s *Server) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if err := s.pool.Load().Drain(ctx); err != nil {
		s.Log.Debug("relay sessions were cut", "err", err)
	}
}

func (s *Server) prepare() error {
	for _, d := range []time.Duration{s.HelloTimeout, s.DialTimeout, s.OpenTimeout, s.HedgeAfter, s.Recheck, s.DrainWait, s.DrainLimit} {
		if d < 0 {
			return fmt.Errorf("entry: time-out %v: want more than 0: %w", d, mesh.ErrInvalid)
		}
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.HelloTimeout, 5*time.Second)
	def(&s.DialTimeout, 3*time.Second)
	def(&s.OpenTimeout, 10*time.Second)
	def(&s.HedgeAfter, time.Second)
	def(&s.Recheck, 30*time.Second)
	def(&s.DrainLimit, 10*time.Minute)
	s.limits = s.Limits.withDefaults()
	s.hellos.most = s.limits.Hellos
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.pool.Store(&relay.Pool{
		Dial:        s.dial,
		Config:      s.Relay,
		Sessions:    s.Sessions,
		DialTimeout: s.DialTimeout,
		Log:         s.Log,
	})
	s.metrics = newMetrics(s)
	if err := s.metrics.all().Register(s.Metrics); err != nil {
		return fmt.Errorf("entry: register metrics: %w", err)
	}
	return nil
}
