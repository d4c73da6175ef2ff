package core

import (
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxUsage bounds the devices in one report, so that it stays a small message;
// the others come with the next.
const maxUsage = 2000

// take returns what is to be reported and forgets it; unsent brings it back.
func (t *devices) take() []*controlpb.DeviceUsage {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.known {
		for l := range d.open {
			t.settle(l)
		}
	}
	var out []*controlpb.DeviceUsage
	for id, u := range t.pending {
		if len(out) == maxUsage {
			break
		}
		out = append(out, &controlpb.DeviceUsage{Device: string(id), Up: u.up, Down: u.down, Connections: u.opened})
		delete(t.pending, id)
	}
	return out
}

// unsent brings back what a report held that may not have arrived.
func (t *devices) unsent(list []*controlpb.DeviceUsage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range list {
		t.charge(mesh.DeviceID(u.GetDevice()), usage{up: u.GetUp(), down: u.GetDown(), opened: u.GetConnections()})
	}
}
