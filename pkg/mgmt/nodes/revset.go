package nodes

import (
	"maps"
	"slices"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
)

// since is what a holder of old lacks; a snapshot when old is nil. Records that
// ended are not told of: whoever holds them knows their end.
func (r *revset) since(old *revset) []*controlpb.Revocations {
	m := &controlpb.Revocations{Revision: r.rev, Snapshot: old == nil}
	if old != nil {
		m.Base = old.rev
	}
	for _, id := range slices.Sorted(maps.Keys(r.records)) {
		if old != nil {
			if _, has := old.records[id]; has {
				continue
			}
		}
		s := r.records[id]
		m.Records = append(m.Records, &controlpb.SignedRevocation{Payload: s.Payload, Signature: s.Signature, Signer: s.Signer})
	}
	return split(m)
}

// revPart is how many records go into one message: about 1 KiB each.
const revPart = 1000

// split cuts a long message. The parts before the last carry revisions no
// store ever has (it begins above them), so that a node which got only some
// asks for all again.
func split(m *controlpb.Revocations) []*controlpb.Revocations {
	if len(m.Records) <= revPart {
		return []*controlpb.Revocations{m}
	}
	var parts []*controlpb.Revocations
	base, snapshot := m.Base, m.Snapshot
	for chunk := range slices.Chunk(m.Records, revPart) {
		rev := int64(len(parts) + 1)
		parts = append(parts, &controlpb.Revocations{Revision: rev, Base: base, Snapshot: snapshot, Records: chunk})
		base, snapshot = rev, false
	}
	parts[len(parts)-1].Revision = m.Revision
	return parts
}
