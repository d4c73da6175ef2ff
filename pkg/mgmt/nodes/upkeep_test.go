package nodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (n *network) device(id mesh.DeviceID) mesh.Device {
	n.t.Helper()
	it, err := n.store.Devices.Get(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return it.Value
}

// On a schedule a device gets another name, both work for a while, then one.
func TestLabelsAreReplacedOnASchedule(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	n.readyCore("c")
	d, unlinked := n.addDevice("phone"), n.addDevice("router")
	n.waitServed(d)
	n.waitServed(unlinked)
	n.updateDevice(d, func(d *mesh.Device) { d.Subscription.Hash, d.Created = "x", time.Now().Add(-time.Hour) })
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error {
			c.Subscription.Name = "sub.example.org"
			c.Labels = mesh.LabelRotation{Every: mesh.Duration(time.Hour), Overlap: mesh.Duration(5 * time.Second)}
			return nil
		})
	})
	eventually(t, "there is another label", func() bool { return len(n.device(d.ID).Labels) == 2 })
	was, is := n.device(d.ID).Labels[0], n.device(d.ID).Labels[1]
	has := func(l mesh.Label) bool {
		_, err := n.store.Routes.Get(t.Context(), mesh.ServerName(l.Label)+"."+n.cell.Suffix)
		return err == nil
	}
	if was.Label != d.Labels[0].Label || !has(was) {
		t.Errorf("the first label is %+v, has a route: %v", was, has(was))
	}
	eventually(t, "the new name has a route", func() bool { return has(is) })
	eventually(t, "the old one has none", func() bool { return !has(was) && len(n.device(d.ID).Labels) == 1 })
	if !has(is) || n.device(d.ID).Labels[0].Label != is.Label {
		t.Errorf("labels %+v", n.device(d.ID).Labels)
	}
	if got := n.device(unlinked.ID).Labels; len(got) != 1 || got[0] != unlinked.Labels[0] {
		t.Errorf("labels of a device without a link: %+v", got)
	}
}

// What an earlier version has made lacks what clients need now.
func TestWhatOlderObjectsLackIsAdded(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	const secret = mesh.Secret("a secret of some length")
	var all []mesh.Device
	n.change(func(tx *store.Tx) error {
		for i := range 20 {
			d := mesh.Device{ID: mesh.NewDeviceID(), Member: n.member.ID, Name: fmt.Sprint("d", i), State: mesh.DeviceActive,
				Labels: []mesh.Label{{Label: mesh.NewLabel()}}, Assigned: mesh.Assignment{Cell: n.cell.ID}}
			d.Verifiers.HTTP = mesh.NewVerifiers(d.ID, secret).HTTP
			sealed, err := n.store.Seal(store.DeviceSecretPlace(d.ID), secret)
			if err != nil {
				return err
			}
			d.Secret = sealed
			if i == 7 {
				d.Secret = "damaged"
			}
			all = append(all, d)
			if err := store.Create(tx, n.store.Devices, d.ID, d); err != nil {
				return err
			}
		}
		return nil
	})
	eventually(t, "they have verifiers", func() bool {
		for i, d := range all {
			if i != 7 && n.device(d.ID).Verifiers != mesh.NewVerifiers(d.ID, secret) {
				return false
			}
		}
		return true
	})
	if got := n.device(all[7].ID).Verifiers; got != all[7].Verifiers {
		t.Errorf("one whose secret is damaged has %+v", got)
	}
	eventually(t, "the cell has paths", func() bool {
		c, err := n.store.Cells.Get(t.Context(), n.cell.ID)
		return err == nil && len(c.Value.Paths) == 1
	})
}

// Devices with as many names as there can be, in two cells, fit.
func TestUpkeepOfDevicesWithManyNames(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	b := n.addCellB()
	n.counting(n.cell, "home")
	n.counting(b, "away")
	n.updateCell(b.ID, func(c *mesh.Cell) { c.Guests = mesh.GuestLimits{Devices: 100, Traffic: 1 << 40} })
	n.updateCell(n.cell.ID, func(c *mesh.Cell) { c.State, c.Fallback = mesh.CellCompromised, []mesh.CellID{b.ID} })
	var all []mesh.Device
	for i := range 3 * upkeepBatch {
		d := n.addDevice(fmt.Sprint("d", i))
		n.updateDevice(d, func(d *mesh.Device) {
			d.Limits.Traffic = 1 << 40
			d.Verifiers.VLESS = ""
			for range 3 {
				d.RotateLabel(time.Now(), time.Hour)
			}
		})
		n.change(func(tx *store.Tx) error {
			return store.Update(tx, n.store.Devices, d.ID, func(d *mesh.Device) (err error) {
				d.Secret, err = n.store.Seal(store.DeviceSecretPlace(d.ID), "secret")
				return err
			})
		})
		all = append(all, d)
	}
	for _, d := range all {
		n.waitServed(d)
	}
	// The loop may have looked at them before they had a secret; another leader has not.
	k := &keeping{s: n.svc}
	eventually(t, "all have verifiers", func() bool {
		if _, err := k.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if n.device(d.ID).Verifiers.VLESS == "" {
				return false
			}
		}
		return true
	})
	if routes, _, err := n.store.Routes.List(t.Context()); err != nil || len(routes) < 6*len(all) {
		t.Errorf("%d routes, %v", len(routes), err)
	}
}
