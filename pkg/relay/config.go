package relay

import (
	"log/slog"
	"time"
)

// ALPN names this protocol, ProbeALPN the one with which a management server checks that a core can
// be dialled.
const (
	ALPN      = "meshctl-relay/1"
	ProbeALPN = "meshctl-probe/1"
)

// Config holds the settings of a session. Zero fields mean their defaults.
type Config struct {
	// Window is how many bytes of a new stream the peer may send before they are read. Default
	// 128 KiB.
	Window int
	// MaxWindow is how far the window of a stream grows whose reader keeps up. Default 1 MiB.
	MaxWindow int
	// Budget bounds what the windows of a session may grow by in all, in bytes; the session never
	// buffers more than twice as much, whatever its streams were granted. Default 64 MiB.
	Budget int
	// MaxStreams is how many streams the session carries at once. Default 16,384.
	MaxStreams int
	// PingEvery is the time between two pings, PingTimeout how long a silent peer may take to
	// answer one. Default 15 s each: a dead peer is noticed after at most 30 s.
	PingEvery, PingTimeout time.Duration
	// Log receives what no caller is told. Nil discards it.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Window = min(orDefault(c.Window, 128<<10), maxCredit)
	c.MaxWindow = min(max(orDefault(c.MaxWindow, 1<<20), c.Window), maxCredit)
	c.Budget = orDefault(c.Budget, 64<<20)
	c.MaxStreams = orDefault(c.MaxStreams, 16384)
	c.PingEvery = orDefault(c.PingEvery, 15*time.Second)
	c.PingTimeout = orDefault(c.PingTimeout, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
