package core

import (
	"fmt"
	"sync"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// quota counts what devices have open of one kind. One connection of a client
// may carry many, so the limits on connections do not bound them.
type quota struct {
	what           string
	max, perDevice int

	mu    sync.Mutex // guards all below
	n     int
	owned map[mesh.DeviceID]int
}

func newQuota(what string, max, perDevice int) *quota {
	return &quota{what: what, max: max, perDevice: perDevice, owned: map[mesh.DeviceID]int{}}
}

// take counts one more for id, and returns ErrUnavailable when that is too much.
func (q *quota) take(id mesh.DeviceID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.n >= q.max:
		return fmt.Errorf("core: %s: this core is full: %w", q.what, mesh.ErrUnavailable)
	case q.owned[id] >= q.perDevice:
		return fmt.Errorf("core: %s: the device has too many: %w", q.what, mesh.ErrUnavailable)
	}
	q.n++
	q.owned[id]++
	return nil
}

// give takes back what take counted.
func (q *quota) give(id mesh.DeviceID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n--
	if q.owned[id]--; q.owned[id] == 0 {
		delete(q.owned, id)
	}
}

func (q *quota) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
