package core

import (
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxUsage bounds the devices in one report, so that it stays a small message;
// the others come with the next.
const maxUsage = 2000

// take returns what is to be reported, and forgets it: what was used since the
// last report, and what those devices have used since the core started. unsent
// brings it back.
func (t *devices) take() (used, metered []*controlpb.DeviceUsage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.known {
		for l := range d.open {
			t.settle(l)
		}
	}
	for id, u := range t.pending {
		if len(used) == maxUsage {
			break
		}
		used = append(used, u.message(id))
		metered = append(metered, t.metered[id].message(id))
		delete(t.pending, id)
		delete(t.fresh, id)
	}
	for id := range t.fresh {
		if len(metered) == maxUsage {
			break
		}
		metered = append(metered, t.metered[id].message(id))
		delete(t.fresh, id)
	}
	return used, metered
}

func (u usage) message(id mesh.DeviceID) *controlpb.DeviceUsage {
	return &controlpb.DeviceUsage{Device: string(id), Up: u.up, Down: u.down, Connections: u.opened}
}

// unsent brings back what a report held that may not have arrived.
func (t *devices) unsent(used, metered []*controlpb.DeviceUsage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range used {
		t.charge(mesh.DeviceID(u.GetDevice()), usage{up: u.GetUp(), down: u.GetDown(), opened: u.GetConnections()})
	}
	for _, u := range metered {
		t.fresh[mesh.DeviceID(u.GetDevice())] = true
	}
}
