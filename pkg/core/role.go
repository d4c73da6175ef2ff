package core

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

var (
	_ control.RoleHandler   = (*Server)(nil)
	_ control.Restorer      = (*Server)(nil)
	_ control.Attendant     = (*Server)(nil)
	_ control.EpochFollower = (*Server)(nil)
)

// States a core reports.
const (
	StateReady         = "ready"
	StateDraining      = "draining"
	StateStopping      = "stopping"
	StateUnconfigured  = "unconfigured"
	StateUncertificate = "no-certificate" // of its cell
)

// applied is the configuration of management that runs.
type applied struct {
	suffix mesh.ServerName
	drain  bool
}

// Hello implements control.RoleHandler.
func (s *Server) Hello(h *controlpb.Hello) {
	s.devices.restart()
	s.cell.restart()
	suffix, notAfter := s.cell.describe()
	h.DevicesRevision = s.devices.held()
	h.Advertise = s.cfg.Advertise
	h.RelayPort = s.port.Load()
	h.RelayProtocols = []string{relay.ALPN}
	h.Egress = &controlpb.Egress{Kind: s.cfg.Egress.Kind, Forward: s.cfg.Egress.Forward}
	for _, p := range s.cfg.Egress.Allow {
		h.Egress.Allow = append(h.Egress.Allow, p.String())
	}
	if suffix != "" {
		h.CellSuffix, h.CellNotAfterUnix = string(suffix), notAfter.Unix()
	}
}

// ApplyConfig implements control.RoleHandler.
func (s *Server) ApplyConfig(_ context.Context, c *controlpb.Config) error {
	suffix, err := mesh.ParseServerName(c.GetCellSuffix())
	if err != nil {
		return fmt.Errorf("core: configuration: the cell's suffix: %w", err)
	}
	want := suffix
	if s.cfg.Egress.Kind != EgressProxy {
		want = "" // the client's TLS does not end here
	} else if err := checkCellKind(c.GetCellCertificate()); err != nil {
		return err
	}
	offered, err := parseWays(c)
	if err != nil {
		return fmt.Errorf("core: configuration: %w", err)
	}
	s.dialer.policy.Store(s.policyOf(c.GetMeshAddresses()))
	s.ways.Store(offered)
	s.applied.Store(&applied{suffix: suffix, drain: c.GetDrain()})
	if !c.GetDrain() {
		s.drained.Store(false) // a newer word than the Drain before it
	}
	s.cell.want(want, c.GetCellId())
	s.tell()
	return nil
}

func (s *Server) policyOf(meshAddrs []string) *policy {
	return &policy{
		allow:     s.cfg.Egress.Allow,
		denyPorts: s.cfg.Egress.DenyPorts,
		mesh:      parseMeshAddresses(append(meshAddrs, s.cfg.Advertise...)),
		own:       s.ownAddresses,
		relay:     func() uint16 { return uint16(s.port.Load()) },
	}
}

// ownAddresses are those of this machine's interfaces, and the one it is seen
// from: a router in front of it may answer there, to those inside.
func (s *Server) ownAddresses() []netip.Addr {
	own := interfaceAddresses()
	if s.Observed != nil {
		if ap, err := netip.ParseAddrPort(s.Observed()); err == nil {
			own = append(own, mesh.Unfold(ap.Addr()))
		}
	}
	return own
}

// Handle implements control.RoleHandler.
func (s *Server) Handle(_ context.Context, m *controlpb.MgmtMessage, send control.Send) error {
	switch b := m.GetBody().(type) {
	case *controlpb.MgmtMessage_Devices:
		return s.takeDevices(b.Devices, send)
	case *controlpb.MgmtMessage_Probe:
		if err := s.probes.add(b.Probe.GetNonce(), time.Now()); err != nil {
			return err
		}
		return send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_ProbeReady{ProbeReady: &controlpb.ProbeReady{Nonce: b.Probe.GetNonce()}}})
	case *controlpb.MgmtMessage_CellCertificate:
		s.takeCell(b.CellCertificate)
	case *controlpb.MgmtMessage_Drain:
		s.drained.Store(true)
		s.Log.Info("core drained", "reason", mesh.Quotable(b.Drain.GetReason()))
		s.tell()
	}
	return nil
}

// NewEpoch implements control.EpochFollower.
func (s *Server) NewEpoch() error { return s.devices.forget() }

// takeDevices acknowledges a table only once it is in force.
func (s *Server) takeDevices(m *controlpb.Devices, send control.Send) error {
	err := s.devices.apply(m)
	switch {
	case errors.Is(err, errPart):
		return nil
	case errors.Is(err, errBase):
		return send(control.AckMessage(controlpb.Ack_KIND_DEVICES, 0, nil))
	case err != nil:
		s.Log.Error("device table refused", "revision", m.GetRevision(), "err", err)
		return send(control.AckMessage(controlpb.Ack_KIND_DEVICES, m.GetRevision(), err))
	}
	if err := s.devices.save(); err != nil {
		s.Log.Error("device table in force but not stored", "revision", m.GetRevision(), "err", err)
	}
	return send(control.AckMessage(controlpb.Ack_KIND_DEVICES, m.GetRevision(), nil))
}

// Report implements control.RoleHandler.
func (s *Server) Report() *controlpb.Report {
	_, streams := s.devices.count()
	used, metered := s.devices.take()
	return &controlpb.Report{State: s.state(), Streams: int64(streams), Usage: used, Metered: metered}
}

// Unsent implements control.Restorer.
func (s *Server) Unsent(r *controlpb.Report) { s.devices.unsent(r.GetUsage(), r.GetMetered()) }

func (s *Server) state() string {
	c := s.applied.Load()
	switch {
	case s.stopping.Load():
		return StateStopping
	case c == nil:
		return StateUnconfigured
	case c.drain || s.drained.Load():
		return StateDraining
	case s.cfg.Egress.Kind == EgressProxy && s.cell.certificate(time.Now()) == nil:
		return StateUncertificate
	}
	return StateReady
}

// Ready returns nil when the core takes streams, and otherwise why not. It is
// for a readiness check.
func (s *Server) Ready(context.Context) error {
	if st := s.state(); st != StateReady {
		return fmt.Errorf("core: %s: %w", st, mesh.ErrUnavailable)
	}
	if s.port.Load() == 0 {
		return fmt.Errorf("core: the relay port is not open: %w", mesh.ErrUnavailable)
	}
	return nil
}

// Changed wakes whoever reports: the state is another. It is for
// control.PhoneHome.
func (s *Server) Changed() <-chan struct{} { return s.changed }

func (s *Server) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
