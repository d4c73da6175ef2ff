package nodes

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// session is one open stream.
type session struct {
	node     string // role/id
	peer     identity.Peer
	observed netip.AddrPort
	hello    *controlpb.Hello
	since    time.Time
	clockOff time.Duration
	server   mesh.ServerID
	egress   mesh.Egress // cores
	counted  bool        // the entry has told on this stream that it counts; of receive alone
	asks     bool        // the node is asked to hand over its revocations
	hand     *handover   // how far that is; nil: not asked, or done. Of attend alone.

	end   context.CancelCauseFunc // ends the stream with that cause
	wake  chan struct{}           // tells the sender to look again
	poke  chan struct{}           // tells the prober to look again
	ready chan []byte             // nonces of ProbeReady, for the prober

	rate   *rate.Limiter // of messages
	volume *rate.Limiter // of their bytes
	resend *rate.Limiter // of requests to be sent everything anew
	writes *rate.Limiter // of acknowledgements that are written at once
	cell   *rate.Limiter // of requests for a cell's certificate

	mu      sync.Mutex // guards what follows
	out     outbox
	goodbye string // reason to be sent before the stream ends
	heard   time.Time
	streams int64
	cert    string // serial of the certificate that the node holds
	policy  mesh.KubePolicy
	handed  int64  // last epoch in which it has handed over its revocations
	awaited []byte // request of a core for a certificate that is being made
	dial    dialState
	dials   dials   // entries: how connections to cores go
	probing probing // entries: names that lead nowhere
}

// dialState is what the dial-back found during this stream.
type dialState struct {
	ok      bool
	failure string
	addrs   []netip.AddrPort
}

func newSession(p identity.Peer, observed netip.AddrPort, h *controlpb.Hello, server mesh.ServerID, epoch int64, now time.Time) *session {
	return &session{
		node: p.Node(), peer: p, observed: observed, hello: h, since: now, server: server,
		clockOff: time.Unix(0, h.GetClockUnixNanos()).Sub(now),
		wake:     make(chan struct{}, 1),
		poke:     make(chan struct{}, 1),
		ready:    make(chan []byte, 1),

		rate:   rate.NewLimiter(200, 1000),
		volume: rate.NewLimiter(256<<10, 8*MaxMessage),
		resend: rate.NewLimiter(rate.Every(10*time.Second), 10),
		writes: rate.NewLimiter(5, 1000),
		cell:   rate.NewLimiter(rate.Every(time.Minute), 3),

		out:    newOutbox(h, epoch),
		heard:  now,
		cert:   p.Serial,
		handed: h.GetHandedEpoch(),
	}
}

// nudge wakes whoever waits on a channel that holds one token.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// next returns what to send now; last says that nothing may follow.
func (se *session) next(w want) (m *controlpb.MgmtMessage, last bool) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.goodbye != "" {
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Goodbye{Goodbye: &controlpb.Goodbye{Reason: se.goodbye}}}, true
	}
	return se.out.next(w), false
}

// welcomed notes which addresses of servers the node was told.
func (se *session) welcomed(mgmt []string) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.out.mgmt = mgmt
}

// answer queues one message.
func (se *session) answer(m *controlpb.MgmtMessage) error {
	se.mu.Lock()
	defer se.mu.Unlock()
	defer nudge(se.wake)
	return se.out.answer(m)
}

// report takes what the node says of itself, and says whether it is news that is
// to be written at once.
func (se *session) report(r *controlpb.Report) (news bool) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.streams = max(0, r.GetStreams())
	if cert := cut(r.GetCertificate(), maxSerial); cert != "" && cert != se.cert {
		se.cert, news = cert, true
	}
	switch p := mesh.KubePolicy(r.GetPolicy()); {
	case p == se.policy:
	case p == mesh.PolicyEnforced, p == mesh.PolicyOpen: // an entry that has not tried yet says nothing
		se.policy, news = p, true
	}
	return news
}

// leave has the node told why the stream is about to end.
func (se *session) leave(reason string) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.goodbye = reason
	nudge(se.wake)
}

func (se *session) hear(now time.Time) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.heard = now
}

func (se *session) silent(now time.Time) time.Duration {
	se.mu.Lock()
	defer se.mu.Unlock()
	return now.Sub(se.heard)
}

// ack takes an acknowledgement, see outbox.ack, and says whether it changed what
// is known of the node.
func (se *session) ack(a *controlpb.Ack) (again, changed bool, err error) {
	se.mu.Lock()
	defer se.mu.Unlock()
	defer nudge(se.wake)
	acked, faults := se.out.acked, se.out.faults
	again, err = se.out.ack(a)
	return again, se.out.acked != acked || se.out.faults != faults, err
}

// status is what is known of the node now.
func (se *session) status() mesh.NodeStatus {
	se.mu.Lock()
	defer se.mu.Unlock()
	return mesh.NodeStatus{
		Node: se.node, Server: se.server, Connected: true, LastSeen: se.heard,
		Observed: se.observed, Version: se.hello.GetVersion(),
		Instance: se.hello.GetInstance(), Boot: se.hello.GetBoot(), Start: se.hello.GetStart(), ClockOff: se.clockOff,
		Streams: se.streams, Failure: se.out.failure(),
		ConfigRev: se.out.acked.config, RefusedRev: se.out.bad, RevokedRev: se.out.acked.revs, DevicesRev: se.out.acked.devices,
		Certificate: se.cert, HandedEpoch: se.handed, Policy: se.policy,
	}
}

// dialled returns what the dial-back found.
func (se *session) dialled() dialState {
	se.mu.Lock()
	defer se.mu.Unlock()
	return se.dial
}

func (se *session) setDialled(d dialState) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.dial = d
}
