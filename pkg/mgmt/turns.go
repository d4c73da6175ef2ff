package mgmt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// maxTurns is how many questions each cluster is asked at a time: strangers with
	// what looks like a token must be no burden to it.
	maxTurns = 16
	// turnWait is how long a question waits for its turn.
	turnWait = 5 * time.Second
)

// turns bounds how many questions each cluster is asked at a time. One that does
// not answer holds up nobody's but its own. The zero value is ready.
type turns struct {
	mu  sync.Mutex // guards all
	all map[mesh.KubeID]chan struct{}
}

// take waits for a turn, which done ends. It returns ErrUnavailable when there is
// none in time.
func (t *turns) take(ctx context.Context, id mesh.KubeID) (done func(), err error) {
	c := t.of(id)
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil, fmt.Errorf("mgmt: ask the cluster %s: too many questions are under way: %w", id, mesh.ErrUnavailable)
}

func (t *turns) of(id mesh.KubeID) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[mesh.KubeID]chan struct{})
	}
	c, ok := t.all[id]
	if !ok {
		c = make(chan struct{}, maxTurns)
		t.all[id] = c
	}
	return c
}
