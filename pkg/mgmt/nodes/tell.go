package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	maxUntold = 256
	// tellAgain is how long the same event of the same object is not repeated:
	// what a node does a hundred times a minute is one thing to know.
	tellAgain = time.Minute
)

// teller writes events outside the loops that notice them.
type teller struct {
	wake signal

	mu     sync.Mutex // guards what follows
	untold []mesh.Event
	told   map[toldKey]time.Time
}

type toldKey struct {
	typ    mesh.EventType
	object string
}

// add queues e unless it was told a moment ago, and says whether it did.
func (t *teller) add(e mesh.Event, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := toldKey{e.Type, e.Object}
	if last, ok := t.told[key]; ok && now.Sub(last) < tellAgain || len(t.untold) >= maxUntold {
		return false
	}
	if t.told == nil {
		t.told = map[toldKey]time.Time{}
	}
	for k, at := range t.told {
		if now.Sub(at) >= tellAgain {
			delete(t.told, k)
		}
	}
	t.told[key] = now
	t.untold = append(t.untold, e)
	t.wake.nudge()
	return true
}

func (t *teller) take() []mesh.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.untold
	t.untold = nil
	return out
}

func (t *teller) putBack(list []mesh.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.untold = append(list, t.untold...)
	t.untold = t.untold[:min(len(t.untold), maxUntold)]
}

// tell has e written soon.
func (s *Service) tell(e mesh.Event) {
	e.Time = time.Now().UTC()
	if !s.teller.add(e, e.Time) {
		s.Log.Debug("event not repeated", "event", e.Type, "object", e.Object)
	}
}

// writeEvents is one pass of the teller.
func (s *Service) writeEvents(ctx context.Context, _ bool) (time.Time, error) {
	list := s.teller.take()
	if len(list) == 0 {
		return time.Time{}, nil
	}
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		for _, e := range list {
			if err := tx.Event(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.teller.putBack(list)
	}
	return time.Time{}, err
}
