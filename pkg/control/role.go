package control

import (
	"context"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Send queues a message on the stream it belongs to. It returns ErrUnavailable
// once that stream is over.
type Send func(*controlpb.NodeMessage) error

// RoleHandler is what a role adds to the phone-home. Its methods are called
// from one goroutine, one at a time, and should return in milliseconds: pings
// wait meanwhile.
type RoleHandler interface {
	// Hello fills in what the role adds to the first message of a stream.
	Hello(*controlpb.Hello)
	// ApplyConfig puts the configuration in force and returns nil once it
	// runs, or returns why not and goes on with what ran before. It is also
	// called before the first stream, with what ran when the node stopped.
	ApplyConfig(context.Context, *controlpb.Config) error
	// Handle takes the messages PhoneHome does not answer itself: Drain, and
	// for cores Devices, Probe and CellCertificate. An error ends the stream;
	// what merely cannot be applied is acknowledged with its error instead.
	Handle(context.Context, *controlpb.MgmtMessage, Send) error
	// Report returns what there is to report: a state, and counters since the
	// last call. Nil reports nothing.
	Report() *controlpb.Report
}

// Restorer is a RoleHandler whose reports carry counters. Unsent returns a
// report that may not have arrived, so that its counters join the next one.
type Restorer interface {
	Unsent(*controlpb.Report)
}

// Attendant is a RoleHandler with something of its own to send. Attend runs
// beside each stream from the server's welcome on, in a goroutine of its own,
// and returns when ctx ends; an error ends the stream.
type Attendant interface {
	Attend(ctx context.Context, send Send) error
}

// EpochFollower is a RoleHandler that keeps revisions of what management sent.
// NewEpoch forgets them, durably, and nothing else: the mesh was restored from a
// backup and numbers anew.
type EpochFollower interface {
	NewEpoch() error
}

// AllowedFrom says whether a node of that role may send m after its hello. The
// server ends the stream of one that sends anything else.
func AllowedFrom(role mesh.Role, m *controlpb.NodeMessage) bool {
	core, entry := role == mesh.RoleCore, role == mesh.RoleEntry
	switch b := m.GetBody().(type) {
	case nil: // of a newer version: to be ignored
		return core || entry
	case *controlpb.NodeMessage_Ping, *controlpb.NodeMessage_Pong, *controlpb.NodeMessage_Goodbye,
		*controlpb.NodeMessage_HandOver:
		return core || entry
	case *controlpb.NodeMessage_Ack:
		return core || entry && b.Ack.GetKind() != controlpb.Ack_KIND_DEVICES
	case *controlpb.NodeMessage_Report:
		return core && !fromEntry(b.Report) || entry && len(b.Report.GetUsage())+len(b.Report.GetMetered()) == 0
	case *controlpb.NodeMessage_ProbeReady, *controlpb.NodeMessage_CellRequest:
		return core
	}
	return false
}

// fromEntry says whether a report has in it what entries alone know.
func fromEntry(r *controlpb.Report) bool {
	return len(r.GetDials())+len(r.GetRelayed()) > 0 || r.GetCounts() || r.GetMisses() != 0 || r.GetMissedNames() != 0 || r.GetPolicy() != ""
}

// AllowedTo says whether the server may send m to a node of that role after
// its welcome.
func AllowedTo(role mesh.Role, m *controlpb.MgmtMessage) bool {
	core, entry := role == mesh.RoleCore, role == mesh.RoleEntry
	switch m.GetBody().(type) {
	case *controlpb.MgmtMessage_Config, *controlpb.MgmtMessage_Revocations, *controlpb.MgmtMessage_Drain,
		*controlpb.MgmtMessage_Goodbye, *controlpb.MgmtMessage_Ping, *controlpb.MgmtMessage_Pong,
		*controlpb.MgmtMessage_Addresses, *controlpb.MgmtMessage_RenewNow,
		*controlpb.MgmtMessage_HandBack, *controlpb.MgmtMessage_HandedOver:
		return core || entry
	case *controlpb.MgmtMessage_Devices, *controlpb.MgmtMessage_Probe, *controlpb.MgmtMessage_CellCertificate:
		return core
	}
	return false
}
