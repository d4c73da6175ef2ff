package nodes

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Usage is what devices have moved since this server started, as their cores
// reported it.
type Usage struct {
	Up, Down    int64 // bytes, from and to the client
	Connections int64
	Last        time.Time
}

// usage adds reports up, in memory: totals are not worth a write per report.
type usage struct {
	mu      sync.Mutex // guards what follows
	devices map[mesh.DeviceID]Usage
}

// add counts the devices that may have been served where the report is from.
func (u *usage) add(list []*controlpb.DeviceUsage, may func(mesh.DeviceID) bool, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.devices == nil {
		u.devices = map[mesh.DeviceID]Usage{}
	}
	for _, d := range list {
		id := mesh.DeviceID(d.GetDevice())
		if !may(id) {
			continue
		}
		t := u.devices[id]
		u.devices[id] = Usage{
			Up:          sum(t.Up, d.GetUp()),
			Down:        sum(t.Down, d.GetDown()),
			Connections: sum(t.Connections, d.GetConnections()),
			Last:        now,
		}
	}
}

// sum adds what a node claims: never less than before, never around the end.
func sum(total, more int64) int64 {
	if more < 0 {
		return total
	}
	if total > math.MaxInt64-more {
		return math.MaxInt64
	}
	return total + more
}

// mayServe returns which devices a core may have served: those of its cell. A
// core must not count for the devices of others.
func (s *Service) mayServe(p identity.Peer) func(mesh.DeviceID) bool {
	core, _ := s.view.cores.Get(mesh.CoreID(p.ID))
	return func(id mesh.DeviceID) bool {
		d, ok := s.view.devices.Get(id)
		return ok && d.Assigned.Cell == core.Cell
	}
}

// Usage returns what each device has moved since the server started.
func (s *Service) Usage() map[mesh.DeviceID]Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return maps.Clone(s.usage.devices)
}
