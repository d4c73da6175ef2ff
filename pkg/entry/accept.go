package entry

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/relay"
)

// Pauses after an Accept that failed, doubled each time.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Second
	acceptLogGap  = time.Second
)

// accept hands connections to start until the listener is closed. No other
// error ends it: whatever is scarce (descriptors, memory) comes back.
func (s *Server) accept(ln net.Listener, start func(*net.TCPConn)) error {
	pauseFor, logged, failures := shortestPause, time.Time{}, 0
	for {
		c, err := ln.Accept()
		switch {
		case err == nil:
			pauseFor, failures = shortestPause, 0
			s.admit(c, start)
			continue
		case errors.Is(err, net.ErrClosed):
			return nil
		}
		s.metrics.acceptErrors.Inc()
		failures++
		if time.Since(logged) >= acceptLogGap {
			logged = time.Now()
			s.Log.Warn("accept failed", "count", failures, "open", s.open.Load(), "err", err)
		}
		if errors.Is(err, syscall.ECONNABORTED) {
			pauseFor = shortestPause // of one client, not of this machine
		}
		time.Sleep(pauseFor)
		pauseFor = min(2*pauseFor, longestPause)
	}
}

func (s *Server) admit(conn net.Conn, start func(*net.TCPConn)) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		relay.Abort(conn, relay.CodeInternal)
		s.metrics.ended.WithLabelValues(string(Internal)).Inc()
		s.Log.Error("connection refused", "reason", Internal, "err", "the listener is not plain TCP")
		return
	}
	if n := s.open.Add(1); s.limits.Total > 0 && n > int64(s.limits.Total) {
		s.open.Add(-1)
		relay.Abort(c, relay.CodeLimit)
		s.metrics.ended.WithLabelValues(string(LimitTotal)).Inc()
		return
	}
	start(c)
}
