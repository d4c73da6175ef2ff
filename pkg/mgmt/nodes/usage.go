package nodes

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxUsage bounds the devices that are counted at once.
const maxUsage = 100_000

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

func (u *usage) add(list []*controlpb.DeviceUsage, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.devices == nil {
		u.devices = map[mesh.DeviceID]Usage{}
	}
	for _, d := range list {
		id, err := mesh.ParseDeviceID(d.GetDevice())
		t, known := u.devices[id]
		if err != nil || !known && len(u.devices) >= maxUsage {
			continue
		}
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

// Usage returns what each device has moved since the server started.
func (s *Service) Usage() map[mesh.DeviceID]Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return maps.Clone(s.usage.devices)
}
