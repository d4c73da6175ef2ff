package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// guestOf says who is a guest where, as far as this server sees now.
func (s *Service) guestOf() mesh.GuestOf {
	cells, cores, devices := s.view.cells.All(), s.view.cores.All(), s.view.devices.All()
	return func(id mesh.DeviceID, core mesh.CoreID) (mesh.CellID, time.Time, bool) {
		d, host := devices[id], cores[core].Cell
		if lost, guest, ok := mesh.GuestIn(d, host, cells); ok {
			return host, lost, guest
		}
		home, ok := cells[d.Assigned.Cell]
		return host, home.Compromised, ok && host != "" && host != home.ID && home.State != mesh.CellActive
	}
}

// quotas is one pass that notes whose traffic is used up. Routes and tables follow
// from that: the device is served no more, and cores end what it has open.
func (l *leader) quotas(ctx context.Context, _ bool) (time.Time, error) {
	v := l.s.view
	c := quotaCheck{devices: v.devices.All(), cells: v.cells.All(), noted: v.spent.All()}
	if !c.any() {
		return time.Time{}, nil
	}
	all, err := l.s.Store.TrafficOf(ctx, l.s.guestOf())
	if err != nil {
		return time.Time{}, err
	}
	c.moved = all.Devices
	var errs []error
	for _, n := range c.outOfStep(time.Now().UTC()) {
		errs = append(errs, l.noteSpent(ctx, n))
	}
	return time.Time{}, errors.Join(errs...)
}

// noteSpent decides again on what the store says inside the transaction.
func (l *leader) noteSpent(ctx context.Context, now mesh.Spent) error {
	st := l.s.Store
	_, err := st.Update(ctx, func(tx *store.Tx) error {
		limit, err := limitIn(tx, st, now)
		if err != nil {
			return err
		}
		noted, err := store.Get(tx, st.Spent, now.ID)
		known := err == nil
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
		next := decideSpent(limit, noted.Moved, now.Moved, known)
		switch {
		case next == spentKept:
			return nil
		case next == spentDropped:
			return store.Delete(tx, st.Spent, now.ID)
		case known:
			err = store.Update(tx, st.Spent, now.ID, func(v *mesh.Spent) error { *v = now; return nil })
		default:
			err = store.Create(tx, st.Spent, now.ID, now)
		}
		if err == nil && next == spentReached {
			err = tx.Event(quotaEvent(now, limit))
		}
		if err != nil || now.Device == "" {
			return err
		}
		return store.SyncRoutes(tx, now.Device, time.Now())
	})
	if err != nil {
		return fmt.Errorf("nodes: note traffic of %s: %w", now.ID, err)
	}
	return nil
}

// limitIn is what the device or the guests may move now; what is gone has none.
func limitIn(tx *store.Tx, st *store.Store, v mesh.Spent) (spentLimit, error) {
	if v.Device != "" {
		d, err := store.Get(tx, st.Devices, v.Device)
		return limitOf(d), ignoreAbsent(err)
	}
	c, err := store.Get(tx, st.Cells, v.Cell)
	return spentLimit{bytes: c.Guests.Traffic}, ignoreAbsent(err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	return err
}

func quotaEvent(v mesh.Spent, limit spentLimit) mesh.Event {
	e := mesh.Event{
		Type: mesh.EventQuotaReached, Severity: mesh.Warning, Object: mesh.ObjectDevice + string(v.Device),
		Cause:  fmt.Sprintf("it has moved %d of %d bytes, and is served no more", limit.counted(v.Moved), limit.bytes),
		Advice: "raise the limit (meshctl admin device set DEVICE --traffic) or count anew (meshctl admin device reset-traffic DEVICE)",
	}
	if v.Device == "" {
		e.Object = mesh.ObjectMember + string(v.Member)
		e.Cause = fmt.Sprintf("as guests of cell %s its devices have moved %d of %d bytes, and are taken in no more", v.Cell, limit.counted(v.Moved), limit.bytes)
		e.Advice = "raise what the cell grants (meshctl admin cell set), or move the devices to a cell that is well"
	}
	return e
}
