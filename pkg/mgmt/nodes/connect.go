package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// MaxMessage is the most bytes of one message from a node.
const MaxMessage = 1 << 20

type stream = grpc.BidiStreamingServer[controlpb.NodeMessage, controlpb.MgmtMessage]

// Connect serves one phone-home. The caller's identity comes from the context
// (identity.WithPeer). It implements controlpb.NodeControlServer.
func (s *Service) Connect(st stream) error {
	ctx, end := context.WithCancelCause(st.Context())
	defer end(nil)
	leave, err := s.hub.enter(end)
	if err != nil {
		return rpcstatus.To(err)
	}
	defer leave()
	err = s.connect(ctx, end, st)
	if errors.Is(err, io.EOF) || errors.Is(err, errParted) {
		return nil
	}
	return rpcstatus.To(err)
}

// errParted ends a stream whose goodbye was said.
var errParted = errors.New("nodes: goodbye")

// connect runs the stream in three goroutines: one receives, one sends, and
// this one decides. The first two can block as long as the connection lasts,
// so only the end of this one ends them.
func (s *Service) connect(ctx context.Context, end context.CancelCauseFunc, st stream) error {
	p, observed, err := caller(ctx)
	if err != nil {
		return err
	}
	in := make(chan *controlpb.NodeMessage)
	s.hub.wg.Go(func() { end(receive(ctx, st, in)) })

	hello, err := s.hello(ctx, p, in)
	if err != nil {
		return err
	}
	if err := s.later(p, hello); err != nil {
		return err
	}
	egress, err := egressOf(hello.GetEgress())
	if err != nil {
		return err
	}
	se := newSession(p, observed, hello, s.Server, s.Epoch(), time.Now())
	se.end, se.egress, se.hand = end, egress, s.handover(hello)
	se.asks = se.hand != nil
	if err := s.admit(ctx, se); err != nil {
		return err
	}
	defer s.dismiss(se)
	defer s.Revocations.Track(p, func() {
		end(fmt.Errorf("nodes: connect: the certificate of %s was revoked: %w", se.node, mesh.ErrDenied))
	})()
	s.hub.wg.Go(func() { end(s.send(ctx, st, se)) })
	if p.Role == mesh.RoleCore {
		s.hub.wg.Go(func() { s.probe(ctx, se) })
	}
	return s.attend(ctx, se, in)
}

// receive passes messages on until the stream ends.
func receive(ctx context.Context, st stream, in chan<- *controlpb.NodeMessage) error {
	for {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		select {
		case in <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// hello waits for the first message.
func (s *Service) hello(ctx context.Context, p identity.Peer, in <-chan *controlpb.NodeMessage) (*controlpb.Hello, error) {
	select {
	case m := <-in:
		h, err := checkHello(p.Role, m)
		if err != nil {
			s.misbehaved(p, err)
		}
		return h, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(s.times.HelloWait):
		return nil, fmt.Errorf("nodes: connect: no hello within %v: %w", s.times.HelloWait, mesh.ErrUnavailable)
	}
}

// admit makes se the one stream of its node, or says why not.
func (s *Service) admit(ctx context.Context, se *session) error {
	now := time.Now()
	warn, err := checkClock(now.Add(se.clockOff), now)
	if warn {
		s.tell(mesh.Event{Type: mesh.EventClockOff, Severity: mesh.Warning, Object: se.node,
			Cause:  fmt.Sprintf("the node's clock differs from this server's by %v", se.clockOff.Round(time.Second)),
			Advice: "set the clock of whichever is wrong (for example with chrony or systemd-timesyncd)"})
	}
	if err == nil {
		err = s.known(ctx, se.peer)
	}
	if err != nil {
		return err
	}
	se.out.adopt(s.wants(se.peer)) // nobody else has it yet
	s.catchUp(se.out.devRev)
	st, _ := s.view.status.Get(se.node)
	var replaced *session
	if err = s.elsewhere(st, se.hello); err == nil {
		replaced, err = s.hub.admit(se)
	}
	if errors.Is(err, mesh.ErrConflict) {
		s.duplicate(se, err)
	}
	if err != nil {
		return err
	}
	if replaced != nil {
		replaced.end(fmt.Errorf("nodes: connect: a later stream of this node took over: %w", mesh.ErrConflict))
	}
	s.Log.Info("node connected", "node", se.node, "version", se.hello.GetVersion())
	s.Log.Debug("node observed", "node", se.node, "from", se.observed)
	s.wakes.flush.nudge()
	return nil
}

func (s *Service) dismiss(se *session) {
	s.hub.dismiss(se)
	s.wakes.flush.nudge()
	s.Log.Info("node disconnected", "node", se.node)
}

// send says welcome, then whatever the node lacks, until the stream ends.
func (s *Service) send(ctx context.Context, st stream, se *session) error {
	w := s.welcome(se)
	se.welcomed(w.GetWelcome().GetMgmtAddresses())
	if err := st.Send(w); err != nil {
		return err
	}
	for {
		m, last := se.next(s.wants(se.peer))
		if m == nil {
			select {
			case <-se.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := st.Send(m); err != nil {
			return err
		}
		if last {
			return errParted
		}
	}
}

func (s *Service) welcome(se *session) *controlpb.MgmtMessage {
	epoch := s.epoch.Load()
	return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Welcome{Welcome: &controlpb.Welcome{
		Server:         string(s.Server),
		MeshId:         string(s.Mesh),
		MeshEpoch:      epoch.number,
		EpochProof:     control.SignedEpochMessage(epoch.proof),
		ClockUnixNanos: time.Now().UnixNano(),
		Observed:       se.observed.String(),
		MgmtAddresses:  s.config().MgmtAddresses,
		HandOver:       se.asks,
	}}}
}

// attend takes what the node sends and pings it, until the stream ends.
func (s *Service) attend(ctx context.Context, se *session, in <-chan *controlpb.NodeMessage) error {
	tick := time.NewTicker(s.times.Ping / 3)
	defer tick.Stop()
	for n := int64(1); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-in:
			se.hear(time.Now())
			if err := s.receive(ctx, se, m); err != nil {
				return err
			}
			se.hear(time.Now()) // the time that took here is no silence of the node
		case <-tick.C:
			if silence := se.silent(time.Now()); silence > s.times.Ping*5/2 {
				return fmt.Errorf("nodes: %s has been silent for %v: %w", se.node, silence.Round(time.Millisecond), mesh.ErrUnavailable)
			}
			if n%3 == 0 {
				if err := se.answer(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Ping{Ping: &controlpb.Ping{Sequence: n / 3}}}); err != nil {
					return err
				}
			}
			n++
		}
	}
}

// misbehaved reports a node that does what its role or the protocol forbids.
func (s *Service) misbehaved(p identity.Peer, err error) {
	s.Log.Warn("node misbehaved", "node", p.Node(), "err", err)
	s.tell(mesh.Event{Type: mesh.EventNodeMisbehaved, Severity: mesh.Warning, Object: p.Node(), Cause: err.Error(),
		Advice: "update the node; if its version is current, treat its machine as taken over and revoke it"})
}
