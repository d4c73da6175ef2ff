package nodes

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// partSize is how many devices go into one message: about 300 bytes each, far
// from the 4 MiB a gRPC client takes.
const partSize = 1000

// table is what the cores of one cell are to know, as of one revision of the
// store. It never changes, and devices that are the same in two tables of a
// cell are the same pointer.
type table struct {
	rev     int64
	need    int64 // highest ModRevision among the objects it was built from
	devices map[string]*controlpb.Device
}

// next returns the table that follows t (nil for none): t itself when nothing
// that it was built from has changed. rev is a revision up to which devices
// and need reflect the store.
func (t *table) next(rev, need int64, devices map[string]*controlpb.Device) *table {
	switch {
	case t == nil:
		return &table{rev, need, devices}
	case rev <= t.rev:
		return t // the mirrors have yet to come as far
	}
	same := len(devices) == len(t.devices)
	for id, d := range devices {
		if old := t.devices[id]; old != nil && proto.Equal(old, d) {
			devices[id] = old
			continue
		}
		same = false
	}
	// A change that leaves no trace in the table still moves its revision:
	// routes wait for the acknowledgement of what they were derived from.
	if same && need == t.need {
		return t
	}
	return &table{rev, need, devices}
}

// snapshot is the whole table, in parts.
func (t *table) snapshot() []*controlpb.Devices {
	var parts []*controlpb.Devices
	ids := slices.Sorted(maps.Keys(t.devices))
	for chunk := range slices.Chunk(ids, partSize) {
		p := &controlpb.Devices{Revision: t.rev, Snapshot: true, More: true}
		for _, id := range chunk {
			p.Upserts = append(p.Upserts, t.devices[id])
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = []*controlpb.Devices{{Revision: t.rev, Snapshot: true}}
	}
	parts[len(parts)-1].More = false
	return parts
}

// since is what turns old, which the node has as of base, into t, or a snapshot
// where that is shorter.
func (t *table) since(old *table, base int64) []*controlpb.Devices {
	if old == nil {
		return t.snapshot()
	}
	d := &controlpb.Devices{Revision: t.rev, Base: base}
	for _, id := range slices.Sorted(maps.Keys(t.devices)) {
		if t.devices[id] != old.devices[id] {
			d.Upserts = append(d.Upserts, t.devices[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(old.devices)) {
		if t.devices[id] == nil {
			d.Removes = append(d.Removes, id)
		}
	}
	if len(d.Upserts) > partSize {
		return t.snapshot()
	}
	return []*controlpb.Devices{d}
}

// deviceMessage is a device as a core learns it.
func deviceMessage(d mesh.ServedDevice) *controlpb.Device {
	m := &controlpb.Device{
		Id:             string(d.ID),
		HiddenHost:     string(d.HiddenHost),
		HttpVerifier:   d.Verifiers.HTTP,
		VlessVerifier:  d.Verifiers.VLESS,
		TrojanVerifier: d.Verifiers.Trojan,
		MaxConnections: int64(d.Limits.Connections),
		MaxTraffic:     d.Limits.Traffic,
	}
	for _, n := range d.ServerNames {
		m.ServerNames = append(m.ServerNames, string(n))
	}
	if !d.Limits.Expires.IsZero() {
		m.ExpiresUnixNanos = d.Limits.Expires.UnixNano()
	}
	return m
}
