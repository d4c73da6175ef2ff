package subs

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/relay"
)

// door takes relay sessions of entries and hands the clients in them to the
// HTTP server.
type door struct {
	s       *Service
	clients *clients

	mu       sync.Mutex // guards what follows
	closed   bool
	sessions map[*relay.Session]string // to the entry
	streams  map[string]int            // by entry
	sources  map[netip.Addr]int        // streams by the client's address, as far as entries name it
	total    int
	wg       sync.WaitGroup
	life     context.Context //nolint:containedctx // of the sessions, which many calls of Take begin
	cut      context.CancelFunc
}

func newDoor(s *Service) *door {
	d := &door{s: s, sessions: map[*relay.Session]string{}, streams: map[string]int{}, sources: map[netip.Addr]int{}}
	d.clients = &clients{conns: make(chan net.Conn), done: make(chan struct{})}
	d.life, d.cut = context.WithCancel(context.Background())
	return d
}

// relayConfig keeps small what an entry can make this server hold: requests are
// short, answers some kilobytes.
func (d *door) relayConfig() relay.Config {
	return relay.Config{Window: 32 << 10, MaxWindow: 128 << 10, Budget: 4 << 20, MaxStreams: max(1, d.s.Limits.Streams/2), Log: d.s.Log}
}

// Take carries the relay session of an entry until it ends. ends is when the
// entry's certificate does: then it opens nothing new. It is false, and conn is
// the caller's, when there are too many or the service does not run.
func (s *Service) Take(conn net.Conn, entry string, ends time.Time) bool {
	if !s.running.Load() {
		return false
	}
	return s.door.take(conn, entry, ends)
}

func (d *door) take(conn net.Conn, entry string, ends time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := 0
	for _, of := range d.sessions {
		if of == entry {
			own++
		}
	}
	if most := d.s.Limits.Sessions; d.closed || len(d.sessions) >= most || own >= max(1, most/2) {
		return false
	}
	sess := relay.Server(conn, d.relayConfig())
	d.sessions[sess] = entry
	d.wg.Go(func() { d.carry(sess, entry, ends) })
	return true
}

// carry hands over streams until the session ends.
func (d *door) carry(sess *relay.Session, entry string, ends time.Time) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sess.Run(d.life); err != nil {
			d.s.Log.Debug("relay session lost", "entry", entry, "err", err)
		}
	})
	over := time.AfterFunc(time.Until(ends), func() { sess.Goodbye(relay.CodeGoingAway) })
	for {
		in, err := sess.Accept(d.life)
		if err != nil {
			break // Run says why
		}
		d.offer(in, entry)
	}
	over.Stop()
	wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, sess)
}

// offer takes one client, or says why another server should.
func (d *door) offer(in *relay.Incoming, entry string) {
	h := in.Header()
	refuse := func(code relay.Code, retryable bool, text string) {
		d.s.metrics.refused.WithLabelValues(code.String()).Inc()
		if err := in.Refuse(code, retryable, text); err != nil {
			d.s.Log.Debug("refusal not sent", "trace", h.Trace, "err", err)
		}
	}
	name, source := d.s.Name(), ratelimit.Block(h.Client.Addr())
	switch {
	case name == "" || h.ServerName != string(name):
		refuse(relay.CodeUnknownDevice, false, "not the name of the subscription service")
		return
	case d.s.Certificate() == nil:
		refuse(relay.CodeInternal, true, "no certificate for the subscription service yet")
		return
	case !d.enter(entry, source):
		refuse(relay.CodeLimit, true, "too many clients of the subscription service")
		return
	}
	st, err := in.Accept()
	if err != nil {
		d.leave(entry, source)
		return // the entry has asked another server
	}
	c := &client{Stream: st, from: addrOf(h.Client), closed: sync.OnceFunc(func() { d.leave(entry, source) })}
	if !d.clients.put(c) {
		st.Reset(relay.CodeGoingAway)
		c.closed()
	}
}

func (d *door) enter(entry string, source netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if most := d.s.Limits.Streams; d.closed || d.total >= most || d.streams[entry] >= max(1, most/2) {
		return false
	}
	if source.IsValid() && d.sources[source] >= d.s.Limits.PerSource {
		return false
	}
	d.total++
	d.streams[entry]++
	d.sources[source]++
	return true
}

func (d *door) leave(entry string, source netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total--
	if d.streams[entry]--; d.streams[entry] == 0 {
		delete(d.streams, entry)
	}
	if d.sources[source]--; d.sources[source] == 0 {
		delete(d.sources, source)
	}
}

// open is how many clients there are now.
func (d *door) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// goodbye takes no new clients, and tells entries to go to another server.
func (d *door) goodbye() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for sess := range d.sessions {
		sess.Goodbye(relay.CodeGoingAway)
	}
}

// close waits for the sessions to end, and cuts them when ctx ends.
func (d *door) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, d.cut)
	defer stop()
	d.wg.Wait()
	d.cut()
}
