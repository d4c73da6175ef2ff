package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/relay"
)

// Options are what a core is made of.
type Options struct {
	Node        *identity.Node
	Revocations *identity.Revocations
	Config      Config
	// Dir is the state folder, for the device table and the cell certificate;
	// "" keeps both in memory.
	Dir string
	// RelayPort is the port entries reach, for the first hello; 0: unknown
	// until Serve.
	RelayPort uint16
	// Observed is host:port as management sees this machine, "" while that is
	// not known: behind NAT no interface has it. nil: never known.
	Observed func() string
	// Relay are the settings of sessions; zero means their defaults.
	Relay      relay.Config
	Registerer prometheus.Registerer // nil: no metrics
	Log        *slog.Logger
}

// Server is a core. It serves relays with Serve, and is what a phone-home
// drives as a control.RoleHandler.
type Server struct {
	Options

	cfg     Config
	devices *devices
	cell    *cell
	dialer  *dialer
	egress  egress
	probes  probes
	metrics *metrics

	applied  atomic.Pointer[applied]
	ways     atomic.Pointer[ways]
	drained  atomic.Bool // by a Drain message
	stopping atomic.Bool
	port     atomic.Uint32
	changed  chan struct{} // has room for one

	mu       sync.Mutex                // guards sessions
	sessions map[*relay.Session]string // id of the entry
}

// New reads what the core kept and makes a server of it. It returns ErrInvalid
// for a configuration that cannot run.
func New(o Options) (*Server, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	cfg := o.Config
	s := &Server{
		Options:  o,
		cfg:      cfg,
		devices:  openDevices(file(o.Dir, "devices.json"), cfg.Limits.Streams, o.Log),
		cell:     openCell(file(o.Dir, "cell.pem"), o.Log),
		dialer:   &dialer{resolve: resolveSystem, timeout: cfg.Limits.Dial},
		changed:  make(chan struct{}, 1),
		sessions: map[*relay.Session]string{},
	}
	s.port.Store(uint32(o.RelayPort))
	s.metrics = newMetrics(o.Registerer, s.devices)
	s.dialer.policy.Store(s.policyOf(nil))
	if cfg.Egress.Kind == EgressForward {
		s.egress = &forward{address: cfg.Egress.Forward, timeout: cfg.Limits.Dial, vigil: &s.dialer.vigil, metrics: s.metrics}
		return s, nil
	}
	fallback, err := newFallback(cfg.Egress.Fallback, o.Log)
	if err != nil {
		return nil, err
	}
	h := newHandler(&handler{devices: s.devices, ways: &s.ways, dialer: s.dialer, limits: cfg.Limits, fallback: fallback, metrics: s.metrics, log: o.Log})
	s.egress = newProxy(h, s.cell, cfg.Limits, o.Log)
	return s, nil
}

func file(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// Serve takes peers on ln until ctx ends. Then it takes no new streams, lets
// the open ones go on for Config.Drain, cuts the rest, and returns nil. It
// closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if ap, err := netip.ParseAddrPort(ln.Addr().String()); err == nil {
		s.port.Store(uint32(ap.Port()))
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var side, peers sync.WaitGroup
	sideCtx, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSide()
	var failed error
	side.Go(func() { failed = s.egress.run(sideCtx) })
	side.Go(func() { s.sweep(sideCtx) })
	side.Go(func() { s.dialer.vigil.Run(sideCtx) })

	acceptErr := s.accept(ctx, own, ln, &peers)

	s.stopping.Store(true)
	s.tell()
	s.goodbye()
	s.finish(&peers)
	cancel(&relay.ResetError{Code: relay.CodeGoingAway})
	peers.Wait()
	if err := s.devices.save(); err != nil {
		s.Log.Warn("device table not stored", "err", err)
	}
	stopSide()
	side.Wait()
	return errors.Join(acceptErr, failed)
}

// finish waits for the peers, but not longer than Config.Drain.
func (s *Server) finish(peers *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { peers.Wait(); close(done) }() // ends with the peers, which Serve waits for
	late := time.NewTimer(s.cfg.Drain)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		_, n := s.devices.count()
		s.Log.Warn("open connections cut", "count", n)
	}
}

// sweep cuts what has expired, every second.
func (s *Server) sweep(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.devices.sweep(now)
		case <-ctx.Done():
			return
		}
	}
}

// accept takes connections until ctx ends or ln breaks. What is accepted lives
// in own.
func (s *Server) accept(ctx, own context.Context, ln net.Listener, peers *sync.WaitGroup) error {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })() // Accept tells
	defer ln.Close()
	g := newGate(s.cfg.Limits)
	tlsConfig := s.Node.ServerTLS(identity.Policy{
		Revocations: s.Revocations,
		Accept:      identity.RelayPort().Accept,
	}, relay.ALPN, relay.ProbeALPN)
	var back time.Duration
	var logged time.Time
	for {
		c, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close() // accepted in the moment of the stop
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("core: accept: %w", err)
		case err != nil:
			back = min(max(2*back, 5*time.Millisecond), time.Second)
			if time.Since(logged) >= time.Second {
				logged = time.Now()
				s.Log.Warn("accept postponed", "err", err, "delay", back)
			}
			pause(ctx, back)
			continue
		}
		back = 0
		from := sourceOf(c)
		if !g.enter(from) {
			s.metrics.handshakes.WithLabelValues("refused").Inc()
			_ = c.Close() // no word for those who are too many
			continue
		}
		peers.Go(func() { s.serveConn(own, c, tlsConfig, func() { g.leave(from) }) })
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
