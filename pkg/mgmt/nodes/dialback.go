package nodes

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	nonceLen = 32
	// patience is how many dial-backs in a row may fail before a core that
	// serves, or that did answer during this stream, counts as unreachable.
	patience = 3
	// probesAtOnce bounds the dial-backs under way, as when a server starts and
	// every core comes at once.
	probesAtOnce = 32
)

// probe dials a core back until ctx ends: at once, then from time to time, and
// soon again after a failure or a nudge.
func (s *Service) probe(ctx context.Context, se *session) {
	select {
	case <-s.collected: // before that it may be one that is refused
	case <-ctx.Done():
	}
	failed := 0
	for ctx.Err() == nil {
		addrs, err := s.probeOnce(ctx, se)
		if ctx.Err() != nil {
			return
		}
		wait := s.times.Probe
		d := se.dialled()
		if err != nil {
			failed++
			wait = min(s.times.Retry<<min(failed-1, 10), s.times.Probe)
			if failed >= patience || !d.ok && !s.serves(se) {
				d = dialState{failure: mesh.Plain(err), addrs: d.addrs}
			}
			s.Log.Debug("dial-back failed", "node", se.node, "err", err)
		} else {
			failed = 0
			d = dialState{ok: true, addrs: addrs}
		}
		se.setDialled(d)
		s.wakes.judge.nudge()
		pause(ctx, s.times.Retry/5) // whoever nudges cannot make it a flood
		s.untilPoked(ctx, se, wait)
	}
}

// serves says whether entries send clients to the core now.
func (s *Service) serves(se *session) bool {
	c, _ := s.view.cores.Get(mesh.CoreID(se.peer.ID))
	return c.State == mesh.CoreReady || c.State == mesh.CoreDraining
}

func (s *Service) untilPoked(ctx context.Context, se *session, wait time.Duration) {
	// Spread, so that cores which came together do not stay together.
	t := time.NewTimer(wait - wait/10 + rand.N(wait/5+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-se.poke:
	}
}

// probeOnce returns the addresses, of those the core may have, at which it
// answers as itself. Its errors are read by people and stay the same as long as
// the reason does.
func (s *Service) probeOnce(ctx context.Context, se *session) ([]netip.AddrPort, error) {
	select {
	case s.probes <- struct{}{}:
		defer func() { <-s.probes }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all, refused := candidates(ctx, s.resolver(), s.policy(), se.hello.GetAdvertise(), se.observed.Addr(), se.hello.GetRelayPort())
	if errors.Is(refused, mesh.ErrDenied) {
		s.tell(mesh.Event{Type: mesh.EventAddressRefused, Severity: mesh.Warning, Object: se.node,
			Cause:  mesh.Plain(refused),
			Advice: "have the core advertise an address that is its own and public, or add its range to allowedAddresses"})
	}
	var answered []netip.AddrPort
	errs := []error{refused}
	for _, a := range all {
		if err := s.dialBack(ctx, se, a); err != nil {
			errs = append(errs, err)
			continue
		}
		answered = append(answered, a)
	}
	if len(answered) > 0 {
		return answered, nil
	}
	return nil, errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}

// dialBack proves that the core of this stream is the one that answers at a:
// half of a nonce sent over the stream goes there, the other half comes back.
func (s *Service) dialBack(ctx context.Context, se *session, a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, s.times.ProbeTime)
	defer cancel()
	nonce := make([]byte, nonceLen)
	crand.Read(nonce)
	if err := s.announce(ctx, se, nonce); err != nil {
		return err
	}
	fail := func(verb string, err error) error {
		return fmt.Errorf("nodes: dial back to %v: %s: %w: %w", a, verb, plain(err), mesh.ErrUnavailable)
	}
	raw, err := s.dialer().DialContext(ctx, "tcp", a.String())
	if err != nil {
		return fail("connect", err)
	}
	defer raw.Close()
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return fail("connect", err)
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn := tls.Client(raw, s.Node.ClientTLS(se.peer.Identity, s.Revocations, identity.ProtoProbe))
	if err := conn.HandshakeContext(ctx); err != nil {
		return fail("TLS handshake", err)
	}
	if _, err := conn.Write(nonce[:nonceLen/2]); err != nil {
		return fail("send nonce", err)
	}
	got := make([]byte, nonceLen/2)
	if _, err := io.ReadFull(conn, got); err != nil {
		return fail("receive answer", err)
	}
	if subtle.ConstantTimeCompare(got, nonce[nonceLen/2:]) != 1 {
		return fail("receive answer", errors.New("it is not the one expected"))
	}
	return nil
}

// announce tells the core of a nonce and waits until it says it is ready.
func (s *Service) announce(ctx context.Context, se *session, nonce []byte) error {
	select {
	case <-se.ready: // left over from a probe that ended without it
	default:
	}
	if err := se.answer(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Probe{Probe: &controlpb.Probe{Nonce: nonce}}}); err != nil {
		return err
	}
	for {
		select {
		case got := <-se.ready:
			if bytes.Equal(got, nonce) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("nodes: dial back: the core did not confirm the probe over its stream within %v: %w", s.times.ProbeTime, mesh.ErrUnavailable)
		}
	}
}

// plain is err without what differs from one try to the next (local ports),
// so that the same reason reads the same.
func plain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errors.New(errno.Error())
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
