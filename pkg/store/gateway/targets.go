package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxTargets bounds how many targets are remembered; beyond it the one asked
// for least recently goes.
const maxTargets = 4096

// table is what is known about targets. A watched one is current; the others
// are what a server said last.
type table struct {
	mu    sync.Mutex // guards known
	known map[string]*known
	// wake tells Run that something is to be watched or reported.
	wake chan struct{}
}

type known struct {
	target    mesh.Target
	present   bool
	moment    // the store's, up to which target is right
	asked     time.Time
	requested bool // of the watch stream that is open now
	watched   bool // and it said yes
	dirty     bool // changed since it was reported
}

// current returns the watched targets among ids and the ids of the others.
func (t *table) current(ids []string) (found map[string]mesh.Target, others []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found = make(map[string]mesh.Target, len(ids))
	for _, id := range ids {
		k := t.known[id]
		switch {
		case k == nil || !k.watched:
			others = append(others, id)
		case k.present:
			found[id] = k.target
			fallthrough
		default:
			k.asked = time.Now()
		}
	}
	return found, others
}

// last returns whatever is known of ids, however old.
func (t *table) last(ids []string) map[string]mesh.Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[string]mesh.Target, len(ids))
	for _, id := range ids {
		if k := t.known[id]; k != nil && k.present {
			found[id] = k.target
		}
	}
	return found
}

// learn records what the store held at a moment; older news than what is known
// is ignored. At an equal revision there can be no two truths: what was read wins
// over what may have been kept wrongly. So it does in another epoch: the store
// was restored. asked says that a lookup wanted it.
func (t *table) learn(id string, target mesh.Target, present bool, at moment, asked bool) {
	t.mu.Lock()
	k := t.known[id]
	fresh := k == nil || at.epoch != k.epoch || at.revision >= k.revision
	if k == nil {
		k = t.addLocked(id)
	} else if fresh && !(k.present == present && equal(k.target, target)) {
		k.dirty = true
	}
	if fresh {
		k.target, k.present, k.moment = target, present, at
	}
	if asked {
		k.asked = time.Now()
	}
	wake := k.dirty || !k.requested
	t.mu.Unlock()
	if wake {
		t.signal()
	}
}

func (t *table) addLocked(id string) *known {
	if len(t.known) >= maxTargets {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(t.known)), func(a, b string) int {
			return t.known[a].asked.Compare(t.known[b].asked)
		})
		delete(t.known, oldest)
	}
	k := &known{}
	t.known[id] = k
	return k
}

func equal(a, b mesh.Target) bool {
	return a.ID == b.ID && a.Kind == b.Kind && a.Identity == b.Identity && a.State == b.State &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Protocols, b.Protocols)
}

func (t *table) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wanted returns the ids asked for since then.
func (t *table) wanted(since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, k := range t.known {
		if k.asked.After(since) {
			ids = append(ids, id)
		}
	}
	return ids
}

// request marks what is asked for since then and not yet requested of the open
// stream, and returns it with the revision to watch from.
func (t *table) request(since time.Time) map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]int64{}
	for id, k := range t.known {
		if !k.requested && k.asked.After(since) {
			k.requested = true
			out[id] = k.revision + 1
		}
	}
	return out
}

// watched notes that a stream of that epoch watches id. It returns false when
// what is known of id is of another: the watch began nowhere then.
func (t *table) watched(id string, epoch int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[id]
	if k != nil && k.epoch != epoch {
		return false
	}
	if k != nil {
		k.watched = k.requested
	}
	return true
}

// unwatch ends the open stream's validity.
func (t *table) unwatch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.known {
		k.requested, k.watched = false, false
	}
}

type change struct {
	target  mesh.Target
	deleted bool
}

// changes returns what is to be reported, and counts it as reported.
func (t *table) changes() []change {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []change
	for id, k := range t.known {
		if k.dirty {
			k.dirty = false
			c := change{target: k.target, deleted: !k.present}
			c.target.ID = id
			out = append(out, c)
		}
	}
	return out
}
