package nodes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// What devices move is counted by cores, from their start on. The server that
// has a core's stream writes what it was told, once a minute, into one object per
// core and hour, and the leader adds hours that are over to totals, see
// tallier.
//
// Counts of one start of a core, a meter, only rise. So writing one twice, by two
// servers, or after a later one, does no harm, and nothing is lost with a server:
// a core tells the next one everything again. What is lost with a core is what it
// has not told yet, at most one interval of its reports.

const (
	// hourDevices is how many devices one object of an hour holds, far from the
	// size that etcd takes.
	hourDevices = 2000
	// hourBatch is how many of them one transaction writes.
	hourBatch = 6
)

// usage is what cores reported and is not written yet.
type usage struct {
	mu     sync.Mutex // guards what follows
	dirty  map[meterKey]counts
	deltas map[mesh.CoreID]*deltas
}

type counts map[mesh.DeviceID]mesh.Traffic

// meterKey is one start of a core.
type meterKey struct {
	core  mesh.CoreID
	meter string
}

// deltas adds up what a core of an earlier version reports, which counts from
// report to report, for an hour. A report of which such a core does not know
// whether it arrived it makes again; so its counts may be too high.
type deltas struct {
	hour  mesh.Hour
	meter string
	sum   counts
}

// deltaMeter begins the names of meters that a server keeps for a core.
const deltaMeter = "s"

// meterOf names a start of a node, whichever stream it is told on.
func meterOf(h *controlpb.Hello) string {
	sum := sha256.Sum256([]byte(h.GetInstance()))
	return fmt.Sprintf("%x-%d", sum[:4], h.GetStart())
}

// add notes a core's report, of the devices that may have been served there.
func (u *usage) add(core mesh.CoreID, meter string, r *controlpb.Report, may func(mesh.DeviceID) bool, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(r.GetMetered()) > 0 {
		for _, d := range r.GetMetered() {
			if id := mesh.DeviceID(d.GetDevice()); may(id) {
				u.noteLocked(meterKey{core, meter}, id, trafficOf(d))
			}
		}
		return
	}
	for _, d := range r.GetUsage() {
		if id := mesh.DeviceID(d.GetDevice()); may(id) {
			k := u.deltasLocked(core, mesh.HourOf(now))
			k.sum[id] = k.sum[id].Plus(trafficOf(d))
			u.noteLocked(meterKey{core, k.meter}, id, k.sum[id])
		}
	}
}

// trafficOf is what a node claims, nothing below zero.
func trafficOf(d *controlpb.DeviceUsage) mesh.Traffic {
	return mesh.Traffic{Up: d.GetUp(), Down: d.GetDown(), Connections: d.GetConnections()}.Max(mesh.Traffic{})
}

func (u *usage) noteLocked(key meterKey, id mesh.DeviceID, n mesh.Traffic) {
	if u.dirty == nil {
		u.dirty = map[meterKey]counts{}
	}
	if u.dirty[key] == nil {
		u.dirty[key] = counts{}
	}
	u.dirty[key][id] = u.dirty[key][id].Max(n)
}

func (u *usage) deltasLocked(core mesh.CoreID, hour mesh.Hour) *deltas {
	if u.deltas == nil {
		u.deltas = map[mesh.CoreID]*deltas{}
	}
	if d := u.deltas[core]; d == nil || d.hour != hour {
		u.deltas[core] = &deltas{hour, deltaMeter + strings.ToLower(rand.Text()), counts{}}
	}
	return u.deltas[core]
}

// take returns what is to be written and forgets it; putBack brings it back.
func (u *usage) take() map[meterKey]counts {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.dirty
	u.dirty = nil
	return out
}

func (u *usage) putBack(key meterKey, list counts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, n := range list {
		u.noteLocked(key, id, n)
	}
}

// metered notes what a core has counted.
func (s *Service) metered(se *session, r *controlpb.Report) {
	s.usage.add(mesh.CoreID(se.peer.ID), meterOf(se.hello), r, s.mayServe(se.peer), time.Now())
}

// mayServe returns which devices a core may have served: those of its cell, those
// that were moved from it of late, and those of cells that were lost and have it for
// a fallback, also when they are well again. A core must not count for the devices of
// others.
func (s *Service) mayServe(p identity.Peer) func(mesh.DeviceID) bool {
	core, _ := s.view.cores.Get(mesh.CoreID(p.ID))
	cells := s.view.cells.All()
	earlier := func(e mesh.EarlierPlace) bool { return e.Cell == core.Cell }
	return func(id mesh.DeviceID) bool {
		d, ok := s.view.devices.Get(id)
		home := cells[d.Assigned.Cell]
		lost := home.State != mesh.CellActive || !home.Compromised.IsZero()
		return ok && (d.Assigned.Cell == core.Cell || lost && mesh.MayHost(core.Cell, home.ID, cells) ||
			slices.ContainsFunc(d.Earlier, earlier) || slices.ContainsFunc(home.Earlier, earlier))
	}
}

// flushUsage is one pass that writes what cores have reported.
func (s *Service) flushUsage(ctx context.Context, _ bool) (time.Time, error) {
	exists := func(id mesh.DeviceID) bool { _, ok := s.view.devices.Get(id); return ok }
	return time.Time{}, s.usage.flush(ctx, s.Store, exists, time.Now())
}

func (u *usage) flush(ctx context.Context, st *store.Store, exists func(mesh.DeviceID) bool, now time.Time) error {
	list := u.take()
	keys := slices.SortedFunc(maps.Keys(list), func(a, b meterKey) int {
		return strings.Compare(string(a.core)+a.meter, string(b.core)+b.meter)
	})
	for _, k := range keys {
		maps.DeleteFunc(list[k], func(id mesh.DeviceID, _ mesh.Traffic) bool { return !exists(id) })
	}
	var errs []error
	for part := 0; len(keys) > 0; part++ {
		var more []meterKey
		for batch := range slices.Chunk(keys, hourBatch) {
			left, err := writeHours(ctx, st, part, batch, list, now)
			if err != nil {
				errs = append(errs, err)
				for _, k := range batch {
					u.putBack(k, list[k])
				}
				continue
			}
			for _, k := range batch {
				if list[k] = left[k]; len(left[k]) > 0 {
					more = append(more, k)
				}
			}
		}
		keys = more
	}
	return errors.Join(errs...)
}

// writeHours writes counts of meters as of now, or as of the first hour that is
// not sealed, into one object each, and returns what did not fit.
func writeHours(ctx context.Context, st *store.Store, part int, batch []meterKey, list map[meterKey]counts, now time.Time) (left map[meterKey]counts, err error) {
	_, err = st.Update(ctx, func(tx *store.Tx) error {
		left = map[meterKey]counts{}
		progress, err := store.Get(tx, st.Progress, store.TrafficKey)
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		hour := max(mesh.HourOf(now), progress.Sealed.Next())
		for _, k := range batch {
			if len(list[k]) == 0 {
				continue
			}
			h := mesh.MeterHour{Hour: hour, Core: k.core, Meter: k.meter}
			if left[k], err = writeHour(tx, st, store.MeterID(hour, k.core, k.meter, part), h, list[k]); err != nil {
				return err
			}
		}
		return nil
	})
	return left, err
}

// writeHour adds more to an object, which h is if there is none.
func writeHour(tx *store.Tx, st *store.Store, id string, h mesh.MeterHour, more counts) (left counts, err error) {
	_, err = store.Get(tx, st.Hours, id)
	if errors.Is(err, mesh.ErrNotFound) {
		h.Devices, left = mix(nil, more)
		return left, store.Create(tx, st.Hours, id, h)
	}
	if err != nil {
		return nil, err
	}
	err = store.Update(tx, st.Hours, id, func(h *mesh.MeterHour) error {
		h.Devices, left = mix(h.Devices, more)
		return nil
	})
	return left, err
}

// mix takes of more what has is to hold, the higher count of each device; what
// there is no room for is left.
func mix(has, more counts) (next, left counts) {
	next, left = counts{}, counts{}
	maps.Copy(next, has)
	for _, id := range slices.Sorted(maps.Keys(more)) {
		if _, ok := next[id]; ok || len(next) < hourDevices {
			next[id] = next[id].Max(more[id])
			continue
		}
		left[id] = more[id]
	}
	return next, left
}
