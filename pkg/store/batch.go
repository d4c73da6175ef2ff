package store

import (
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// routeOps is how many writes and conditions the routes of one device may need:
// two labels in four cells, what says so, and their index.
const routeOps = 20

// batchOps bounds what routes may take of a transaction; the rest is for the
// change that causes them, its labels, its audit record and events.
const batchOps = maxOps - 30

// SyncMember is SyncRoutes for the devices of a member, as many as fit in the
// transaction. It returns false when some did not fit: the reconciler does the
// rest.
func SyncMember(tx *Tx, id mesh.MemberID, now time.Time) (all bool, err error) {
	ids, err := DevicesOf(tx, id)
	if err != nil {
		return false, err
	}
	return syncSome(tx, ids, now)
}

// SyncCell is SyncRoutes for the devices that a cell has or had, after the cell or one of its
// cores changed, as many as fit. It returns false when some did not fit: the
// reconciler does the rest, and the guests.
func SyncCell(tx *Tx, id mesh.CellID, now time.Time) (all bool, err error) {
	// The commit does not depend on the list: who adds a device meanwhile reads
	// the cell and its cores, and so notices this change.
	entries, err := tx.list(tx.s.Devices.prefix(), false)
	if err != nil {
		return false, err
	}
	var ids []mesh.DeviceID
	for _, e := range entries {
		d, err := tx.s.Devices.decode([]byte(e.key), e.data)
		if err != nil {
			return false, err
		}
		earlier := func(e mesh.EarlierPlace) bool { return e.Cell == id }
		if d.Assigned.Cell == id || slices.ContainsFunc(d.Earlier, earlier) {
			ids = append(ids, d.ID)
		}
	}
	return syncSome(tx, ids, now)
}

// DevicesOf returns the ids of a member's devices, without reading all devices.
func DevicesOf(tx *Tx, id mesh.MemberID) ([]mesh.DeviceID, error) {
	held, err := tx.holders(deviceNames(id))
	if err != nil {
		return nil, err
	}
	ids := make([]mesh.DeviceID, len(held))
	for i, h := range held {
		ids[i] = mesh.DeviceID(h.ID)
	}
	return ids, nil
}

func syncSome(tx *Tx, ids []mesh.DeviceID, now time.Time) (all bool, err error) {
	for _, id := range ids {
		if tx.size()+routeOps > batchOps {
			return false, nil
		}
		if err := SyncRoutes(tx, id, now); err != nil {
			return false, err
		}
	}
	return true, nil
}

// size is how much of the transaction is used: writes or conditions, whichever
// are more.
func (tx *Tx) size() int { return max(len(tx.writes), len(tx.must)+2*len(tx.spans)) }
