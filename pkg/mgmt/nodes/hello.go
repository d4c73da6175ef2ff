package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// caller returns who opened the stream and from where.
func caller(ctx context.Context) (identity.Peer, netip.AddrPort, error) {
	p, ok := identity.PeerFromContext(ctx)
	if !ok || p.Role != mesh.RoleCore && p.Role != mesh.RoleEntry {
		return p, netip.AddrPort{}, fmt.Errorf("nodes: connect: only cores and entries phone home: %w", mesh.ErrDenied)
	}
	from, ok := peer.FromContext(ctx)
	if !ok || from.Addr == nil {
		return p, netip.AddrPort{}, fmt.Errorf("nodes: connect: the connection has no address: %w", mesh.ErrDenied)
	}
	a, err := netip.ParseAddrPort(from.Addr.String())
	if err != nil {
		return p, netip.AddrPort{}, fmt.Errorf("nodes: connect: address %q: %w: %w", from.Addr, err, mesh.ErrDenied)
	}
	return p, netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()), nil
}

// Bounds of what a node may say of itself.
const (
	maxText  = 255
	maxAllow = 64
)

// checkHello says whether the first message of a stream is one, within bounds
// and from the role it claims to be. It returns ErrInvalid or ErrDenied.
func checkHello(role mesh.Role, m *controlpb.NodeMessage) (*controlpb.Hello, error) {
	h := m.GetHello()
	if h == nil {
		return nil, fmt.Errorf("nodes: connect: the first message must be a hello: %w", mesh.ErrInvalid)
	}
	coreOnly := len(h.GetAdvertise()) > 0 || h.GetRelayPort() != 0 || h.GetEgress() != nil ||
		len(h.GetRelayProtocols()) > 0 || h.GetCellSuffix() != "" || h.GetDevicesRevision() != 0
	if role != mesh.RoleCore && coreOnly {
		return nil, fmt.Errorf("nodes: connect: an %s says what only cores say: %w", role, mesh.ErrDenied)
	}
	texts := append([]string{h.GetVersion(), h.GetInstance(), h.GetCellSuffix(), h.GetEgress().GetKind(), h.GetEgress().GetForward()}, h.GetAdvertise()...)
	texts = append(append(texts, h.GetRelayProtocols()...), h.GetEgress().GetAllow()...)
	for _, t := range texts {
		if len(t) > maxText {
			return nil, fmt.Errorf("nodes: connect: hello: a text of %d bytes, at most %d: %w", len(t), maxText, mesh.ErrInvalid)
		}
	}
	switch {
	case h.GetInstance() == "":
		return nil, fmt.Errorf("nodes: connect: hello without instance: %w", mesh.ErrInvalid)
	case len(h.GetAdvertise()) > maxAddresses:
		return nil, fmt.Errorf("nodes: connect: %d addresses advertised, at most %d: %w", len(h.GetAdvertise()), maxAddresses, mesh.ErrInvalid)
	case len(h.GetRelayProtocols()) > maxAddresses || len(h.GetEgress().GetAllow()) > maxAllow:
		return nil, fmt.Errorf("nodes: connect: hello: a list is too long: %w", mesh.ErrInvalid)
	case min(h.GetBoot(), h.GetConfigRevision(), h.GetRevocationsRevision(), h.GetDevicesRevision()) < 0:
		return nil, fmt.Errorf("nodes: connect: hello: a number is negative: %w", mesh.ErrInvalid)
	}
	return h, nil
}

// checkClock compares a node's clock with this server's. It returns
// ErrConflict when they are too far apart; warn says they are somewhat.
func checkClock(node, here time.Time) (warn bool, err error) {
	off := node.Sub(here)
	if off.Abs() < clockRefuse {
		return off.Abs() >= clockWarn, nil
	}
	return true, mesh.WithHint(
		fmt.Errorf("nodes: connect: clocks differ by %v: the node says %s, this server %s: %w",
			off.Round(time.Second), stamp(node), stamp(here), mesh.ErrConflict),
		"set the clock of whichever is wrong (for example with chrony or systemd-timesyncd)")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// egressOf is a core's egress as it is stored.
func egressOf(e *controlpb.Egress) (mesh.Egress, error) {
	out := mesh.Egress{Kind: e.GetKind(), Forward: e.GetForward()}
	for _, a := range e.GetAllow() {
		p, err := netip.ParsePrefix(a)
		if err != nil {
			return mesh.Egress{}, fmt.Errorf("nodes: connect: egress range %q: %w: %w", mesh.Quotable(a), err, mesh.ErrInvalid)
		}
		out.Allow = append(out.Allow, p)
	}
	return out, nil
}
