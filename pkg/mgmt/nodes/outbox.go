package nodes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxAnswers bounds what waits for a node that does not read.
const maxAnswers = 16

// want is what a node should have now. Nil means: nothing known yet, or not
// for this node.
type want struct {
	config *controlpb.Config
	revs   *revset
	table  *table
	asOf   int64    // moment of the store that the table reflects, its own revision at least
	mgmt   []string // addresses of the servers
	renew  *controlpb.RenewNow
}

// outbox decides what a stream sends next, by comparing what its node should
// have with what it was sent. Only answers are queued, few of them.
type outbox struct {
	config, revRev, devRev int64   // sent last; before that, what hello named
	revs                   *revset // sent last on this stream, nil before
	table                  *table

	mgmt    []string // sent last, in the welcome at first
	renewed bool     // the node was asked to renew; once a stream is enough

	answers  []*controlpb.MgmtMessage
	revParts []*controlpb.Revocations // rest of what is being sent
	devParts []*controlpb.Devices

	acked  revisions
	bad    int64     // revision of the configuration that the node refused last
	faults [4]string // by kind of acknowledgement: why the node does not run what it was sent
}

// revisions are what a node runs. devices is 0 until acknowledged on this
// stream.
type revisions struct{ config, revs, devices int64 }

// newOutbox begins with what the node has. A node of a lower epoch may hold
// revisions of a time line that is gone, so all of it is sent anew.
func newOutbox(h *controlpb.Hello, epoch int64) outbox {
	if h.GetMeshEpoch() != epoch {
		return outbox{}
	}
	o := outbox{config: h.GetConfigRevision(), revRev: h.GetRevocationsRevision(), devRev: h.GetDevicesRevision()}
	o.acked = revisions{config: o.config, revs: o.revRev}
	return o
}

// adopt notices that the node has already what it should have, from an earlier
// stream, perhaps of another server. Its acknowledgement may have been lost with
// that one. A table that has said the same since its revision is the one that
// another server sent as of a later moment.
func (o *outbox) adopt(w want) {
	if o.table == nil && w.table != nil && w.table.rev <= o.devRev && o.devRev <= w.known() {
		o.table, o.acked.devices = w.table, o.devRev
	}
	if o.revs == nil && w.revs != nil && w.revs.rev == o.revRev {
		o.revs = w.revs
	}
}

// answer queues m, or says that too much waits already.
func (o *outbox) answer(m *controlpb.MgmtMessage) error {
	if len(o.answers) >= maxAnswers {
		return fmt.Errorf("nodes: queue answer: %d wait already: %w", len(o.answers), mesh.ErrUnavailable)
	}
	o.answers = append(o.answers, m)
	return nil
}

// next returns the next message to send, nil when the node has been sent all it
// should have. Revocations overtake everything.
func (o *outbox) next(w want) *controlpb.MgmtMessage {
	o.adopt(w)
	if m := o.nextRevocations(w.revs); m != nil {
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Revocations{Revocations: m}}
	}
	if len(o.answers) > 0 {
		m := o.answers[0]
		o.answers = o.answers[1:]
		return m
	}
	if len(w.mgmt) > 0 && !slices.Equal(w.mgmt, o.mgmt) {
		o.mgmt = w.mgmt
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Addresses{Addresses: &controlpb.Addresses{Mgmt: w.mgmt}}}
	}
	if w.renew != nil && !o.renewed { // after the addresses: not at the one that is gone
		o.renewed = true
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_RenewNow{RenewNow: w.renew}}
	}
	if w.config != nil && w.config.GetRevision() != o.config {
		o.config = w.config.GetRevision()
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Config{Config: w.config}}
	}
	if m := o.nextDevices(w); m != nil {
		return &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Devices{Devices: m}}
	}
	return nil
}

// known is the moment up to which the table reflects the store.
func (w want) known() int64 { return max(w.asOf, w.table.rev) }

// nextRevocations never sends what is older than what the node has: this
// server may lag behind the one the node was connected to before.
func (o *outbox) nextRevocations(w *revset) *controlpb.Revocations {
	if len(o.revParts) == 0 && w != nil && w.rev > o.revRev {
		o.revParts = w.since(o.revs)
		o.revs, o.revRev = w, w.rev
	}
	return pop(&o.revParts)
}

// nextDevices sends nothing while the node has more than this server knows: it
// would lose devices that routes send to it. See Service.catchUp.
func (o *outbox) nextDevices(w want) *controlpb.Devices {
	behind := w.table != nil && o.table == nil && o.devRev > w.known()
	if len(o.devParts) == 0 && w.table != nil && w.table != o.table && !behind {
		o.devParts = w.table.since(o.table, o.devRev)
		o.table, o.devRev = w.table, w.table.rev
	}
	return pop(&o.devParts)
}

func pop[T any](parts *[]*T) *T {
	if len(*parts) == 0 {
		return nil
	}
	m := (*parts)[0]
	*parts = (*parts)[1:]
	return m
}

// ack takes what the node says it runs. again says that the node asked to be
// sent everything of that kind anew. It returns ErrInvalid for what was never
// sent.
func (o *outbox) ack(a *controlpb.Ack) (again bool, err error) {
	var sent int64
	switch a.GetKind() {
	case controlpb.Ack_KIND_CONFIG:
		sent = o.config
	case controlpb.Ack_KIND_REVOCATIONS:
		sent = o.revRev
	case controlpb.Ack_KIND_DEVICES:
		sent = o.devRev
	default:
		return false, fmt.Errorf("nodes: acknowledgement of kind %d: %w", a.GetKind(), mesh.ErrInvalid)
	}
	rev := a.GetRevision()
	if rev < 0 || rev > sent {
		return false, fmt.Errorf("nodes: acknowledgement of %v %d, sent was %d: %w", a.GetKind(), rev, sent, mesh.ErrInvalid)
	}
	o.faults[a.GetKind()] = cut(a.GetError(), 500)
	switch {
	case rev == 0:
		o.again(a.GetKind())
	case a.GetKind() == controlpb.Ack_KIND_CONFIG && a.GetError() != "":
		o.bad = rev
	case a.GetError() == "":
		o.accept(a.GetKind(), rev)
	}
	return rev == 0, nil
}

func (o *outbox) accept(k controlpb.Ack_Kind, rev int64) {
	switch k {
	case controlpb.Ack_KIND_CONFIG:
		o.acked.config, o.bad = rev, 0
	case controlpb.Ack_KIND_REVOCATIONS:
		o.acked.revs = rev
	case controlpb.Ack_KIND_DEVICES:
		o.acked.devices = max(o.acked.devices, rev)
	}
}

func (o *outbox) again(k controlpb.Ack_Kind) {
	switch k {
	case controlpb.Ack_KIND_CONFIG:
		o.config = 0
	case controlpb.Ack_KIND_REVOCATIONS:
		o.revs, o.revRev, o.revParts = nil, 0, nil
	case controlpb.Ack_KIND_DEVICES:
		o.table, o.devRev, o.devParts = nil, 0, nil
	}
}

// failure is why the node does not run what it was sent, "" when it does.
func (o *outbox) failure() string {
	var all []string
	for kind, fault := range o.faults {
		if fault != "" {
			all = append(all, strings.ToLower(strings.TrimPrefix(controlpb.Ack_Kind(kind).String(), "KIND_"))+": "+fault)
		}
	}
	return strings.Join(all, "; ")
}

// cut bounds text that a node made up.
func cut(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
