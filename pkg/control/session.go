package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	clockWarn   = 5 * time.Second
	clockRefuse = 10 * time.Minute
	missedPings = 2
)

var (
	errGoodbye = errors.New("the server said goodbye")
	errSilent  = fmt.Errorf("the server stopped answering pings: %w", mesh.ErrUnavailable)
)

// session decides what the node does on each message and tick of one stream.
// It is driven from one goroutine and does no network I/O: send queues.
type session struct {
	home    *PhoneHome
	running *running
	send    Send
	opened  func(*controlpb.Welcome) // called once, when the welcome was accepted

	welcomed bool
	asked    time.Time // when the hello left

	pinged, ponged int64 // sequence of the last ping sent, of the last answered
	pingedAt       time.Time
	unconfirmed    []sentReport
	told           string // serial of the certificate that was reported last
}

// sentReport is a report that arrived for certain once the ping after it is
// answered.
type sentReport struct {
	report *controlpb.Report
	ping   int64
}

// hello sends the first message.
func (s *session) hello() error {
	boot, err := s.home.State.NextBoot()
	if err != nil {
		return err
	}
	s.asked = time.Now()
	h := &controlpb.Hello{
		Version:             s.home.Version,
		Instance:            s.home.State.Instance(),
		Boot:                boot,
		Start:               s.home.State.Start(),
		ClockUnixNanos:      s.asked.UnixNano(),
		MeshEpoch:           s.home.Revocations.Epoch(),
		ConfigRevision:      s.running.config,
		RevocationsRevision: s.home.Revocations.Revision(),
		EpochProof:          SignedEpochMessage(s.home.Revocations.EpochProof()),
		HandedEpoch:         s.home.Revocations.Handed(),
	}
	s.home.Role.Hello(h)
	return s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{Hello: h}})
}

// receive acts on one message. An error ends the stream.
func (s *session) receive(ctx context.Context, m *controlpb.MgmtMessage) error {
	if !s.welcomed {
		return s.welcome(m.GetWelcome())
	}
	switch b := m.GetBody().(type) {
	case nil:
		return nil // of a newer version
	case *controlpb.MgmtMessage_Config:
		return s.config(ctx, b.Config)
	case *controlpb.MgmtMessage_Revocations:
		return s.revocations(b.Revocations)
	case *controlpb.MgmtMessage_Addresses:
		return s.home.State.SetAddresses(b.Addresses.GetMgmt())
	case *controlpb.MgmtMessage_RenewNow:
		s.home.renewNow(b.RenewNow)
		return nil
	case *controlpb.MgmtMessage_HandBack:
		return s.handBack(b.HandBack)
	case *controlpb.MgmtMessage_HandedOver:
		return s.handedOver(b.HandedOver)
	case *controlpb.MgmtMessage_Goodbye:
		return fmt.Errorf("%w: %s", errGoodbye, mesh.Quotable(b.Goodbye.GetReason()))
	case *controlpb.MgmtMessage_Ping:
		return s.send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Pong{Pong: b.Ping}})
	case *controlpb.MgmtMessage_Pong:
		s.pong(b.Pong.GetSequence())
		return nil
	}
	if !AllowedTo(s.home.Node.Identity().Role, m) {
		return fmt.Errorf("the server sent a message that is not for this role: %w", mesh.ErrInvalid)
	}
	return s.home.Role.Handle(ctx, m, s.send)
}

// welcome checks the server's first message before anything of it is kept.
func (s *session) welcome(w *controlpb.Welcome) error {
	if w == nil {
		return fmt.Errorf("the server's first message is no welcome: %w", mesh.ErrInvalid)
	}
	if id := s.home.Node.Identity(); w.GetMeshId() != string(id.Mesh) {
		return fmt.Errorf("the server serves the mesh %q, not %s: %w", mesh.Quotable(w.GetMeshId()), id.Mesh, mesh.ErrDenied)
	}
	if err := s.clock(time.Unix(0, w.GetClockUnixNanos()), time.Now()); err != nil {
		return err
	}
	if err := s.follow(w); errors.Is(err, mesh.ErrConflict) {
		return mesh.WithHint(fmt.Errorf("the server's state is older than what this node has seen: %w", err),
			"management was restored from a backup; it must raise the mesh epoch before nodes return")
	} else if err != nil {
		return err
	}
	if err := s.home.State.SetAddresses(w.GetMgmtAddresses()); err != nil {
		return err
	}
	s.welcomed = true
	s.pingedAt = time.Now()
	s.opened(w)
	if w.GetHandOver() {
		return s.handOver()
	}
	return nil
}

// clock compares the server's clock with the middle of the exchange here.
func (s *session) clock(theirs, now time.Time) error {
	ours := s.asked.Add(now.Sub(s.asked) / 2)
	off := theirs.Sub(ours)
	switch {
	case off.Abs() >= clockRefuse:
		return mesh.WithHint(fmt.Errorf("clocks are %v apart: here %s, at the server %s: %w", off.Abs().Round(time.Second),
			ours.UTC().Format(time.RFC3339), theirs.UTC().Format(time.RFC3339), mesh.ErrConflict),
			"set this machine's clock (timedatectl set-ntp true)")
	case off.Abs() >= clockWarn:
		s.home.Log.Warn("clock differs from management", "offset", off.Round(time.Millisecond))
	}
	return nil
}

// config applies c and stores it once it ran, so that a restart begins with
// what worked.
func (s *session) config(ctx context.Context, c *controlpb.Config) error {
	rev := c.GetRevision()
	if rev == s.running.config && rev != 0 {
		return s.ack(controlpb.Ack_KIND_CONFIG, rev, nil)
	}
	if err := s.home.Role.ApplyConfig(ctx, c); err != nil {
		s.home.Log.Warn("configuration refused", "revision", rev, "running", s.running.config, "err", err)
		return s.ack(controlpb.Ack_KIND_CONFIG, rev, err)
	}
	s.running.config = rev
	if err := s.home.State.SetConfig(c); err != nil {
		s.home.Log.Error("configuration runs but is not stored", "revision", rev, "err", err)
	}
	return s.ack(controlpb.Ack_KIND_CONFIG, rev, nil)
}

// revocations verifies and stores; a delta that does not fit asks for everything.
func (s *session) revocations(r *controlpb.Revocations) error {
	recs := make([]mesh.SignedRevocation, len(r.GetRecords()))
	for i, x := range r.GetRecords() {
		recs[i] = mesh.SignedRevocation{Payload: x.GetPayload(), Signature: x.GetSignature(), Signer: x.GetSigner()}
	}
	err := s.home.Revocations.Apply(r.GetSnapshot(), r.GetBase(), r.GetRevision(), recs)
	switch {
	case errors.Is(err, mesh.ErrConflict):
		return s.ack(controlpb.Ack_KIND_REVOCATIONS, 0, nil)
	case err != nil:
		s.home.Log.Error("revocations refused", "revision", r.GetRevision(), "err", err)
	}
	return s.ack(controlpb.Ack_KIND_REVOCATIONS, r.GetRevision(), err)
}

func (s *session) ack(k controlpb.Ack_Kind, rev int64, err error) error {
	return s.send(AckMessage(k, rev, err))
}

// AckMessage acknowledges a revision that runs, or says why it does not.
// Revision 0 asks for a snapshot.
func AckMessage(k controlpb.Ack_Kind, rev int64, err error) *controlpb.NodeMessage {
	a := &controlpb.Ack{Kind: k, Revision: rev}
	if err != nil {
		a.Error = err.Error()
	}
	return &controlpb.NodeMessage{Body: &controlpb.NodeMessage_Ack{Ack: a}}
}
