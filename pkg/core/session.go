package core

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/relay"
)

// serveConn takes one peer from its handshake to its end. shaken is called when
// the handshake is over.
func (s *Server) serveConn(ctx context.Context, raw net.Conn, cfg *tls.Config, shaken func()) {
	c := tls.Server(raw, cfg)
	peer, err := s.handshake(ctx, c)
	shaken()
	if err != nil {
		s.metrics.handshakes.WithLabelValues("failed").Inc()
		s.Log.Debug("peer refused", "addr", raw.RemoteAddr(), "err", err)
		_ = c.Close() // the alert is sent
		return
	}
	s.metrics.handshakes.WithLabelValues("ok").Inc()
	if c.ConnectionState().NegotiatedProtocol == relay.ProbeALPN {
		s.serveProbe(c, peer)
		return
	}
	s.serveRelay(ctx, c, peer)
}

func (s *Server) handshake(ctx context.Context, c *tls.Conn) (identity.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Handshake)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return identity.Peer{}, err
	}
	return identity.PeerOf(c.ConnectionState())
}

func (s *Server) serveProbe(c *tls.Conn, peer identity.Peer) {
	defer s.Revocations.Track(peer, func() { _ = c.NetConn().Close() })() // serve says how it ended
	if err := s.probes.serve(c); err != nil {
		s.Log.Warn("probe not answered", "node", peer.ID, "err", err)
	}
	_ = c.Close() // what mattered is written
}

// serveRelay carries one session until it ends.
func (s *Server) serveRelay(ctx context.Context, c *tls.Conn, peer identity.Peer) {
	cfg := s.Relay
	cfg.Log = s.Log
	sess := relay.Server(c, cfg)
	if !s.enter(sess, peer.ID) {
		s.Log.Warn("relay session refused, too many are open", "entry", peer.ID)
		_ = c.Close() // the entry finds another core
		return
	}
	defer s.leave(sess)
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer s.Revocations.Track(peer, func() { cut(&relay.ResetError{Code: relay.CodeRevoked}) })()
	// A certificate that ended opens nothing new; open streams go on.
	ended := time.AfterFunc(time.Until(peer.Leaf.NotAfter), func() { sess.Goodbye(relay.CodeGoingAway) })
	defer ended.Stop()
	s.Log.Debug("relay session opened", "entry", peer.ID)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sess.Run(ctx); err != nil {
			s.Log.Debug("relay session lost", "entry", peer.ID, "err", err)
		}
	})
	for {
		in, err := sess.Accept(ctx)
		if err != nil {
			break // Run says why
		}
		wg.Go(func() { s.stream(ctx, in) })
	}
	wg.Wait()
}

// enter counts a session of an entry, unless there are too many or the core
// stops. No entry may have more than a quarter, or one could keep the others out.
func (s *Server) enter(sess *relay.Session, entry string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, of := range s.sessions {
		if of == entry {
			own++
		}
	}
	if len(s.sessions) >= s.cfg.Limits.Sessions || own >= max(1, s.cfg.Limits.Sessions/4) || s.stopping.Load() {
		return false
	}
	s.sessions[sess] = entry
	s.metrics.sessions.Inc()
	return true
}

func (s *Server) leave(sess *relay.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, sess)
	s.metrics.sessions.Dec()
}

// goodbye asks all entries to take their new streams elsewhere. It is called
// once stopping is set, so that no session slips past.
func (s *Server) goodbye() {
	s.mu.Lock()
	open := make([]*relay.Session, 0, len(s.sessions))
	for sess := range s.sessions {
		open = append(open, sess)
	}
	s.mu.Unlock()
	for _, sess := range open {
		sess.Goodbye(relay.CodeGoingAway)
	}
}
