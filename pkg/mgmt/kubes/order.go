package kubes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxCame bounds how many observations wait to be looked at.
const maxCame = 1000

// Order is what is to be so in the clusters now.
func (s *Service) Order() []kube.Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []kube.Work
	for _, id := range slices.Sorted(maps.Keys(s.works)) {
		out = append(out, s.works[id])
	}
	return out
}

// Ended takes note of how a cluster is.
func (s *Service) Ended(o kube.Observation) {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.works == nil || len(s.came) >= maxCame {
		return
	}
	s.came = append(s.came, o)
	s.nudge()
}

// order says what is to be so in a cluster. On a fault what was ordered stays.
func (t *term) order(c mesh.KubeCluster) error {
	err := t.draw(c)
	s := t.sight(c.ID)
	s.fault = ""
	if err != nil {
		s.fault = mesh.Plain(err)
	}
	return err
}

func (t *term) draw(c mesh.KubeCluster) error {
	if idle(c) && !t.sweeps(c) {
		t.give(c.ID, nil)
		return nil
	}
	if w, ok := t.work(c.ID); ok && w.Release == 0 && !idle(c) && !c.Removing {
		t.give(c.ID, nil) // whatever becomes of what is wanted by now, it is not to be taken away
	}
	st, _ := t.states.Get(c.ID)
	rel := c.Ordered(st)
	api, err := t.api(c)
	if err != nil {
		return err
	}
	work := kube.Work{Cluster: c.ID, API: api, Mesh: t.Mesh, Epoch: t.epoch, Release: rel.Number, Mark: mark(c)}
	if rel.Number != 0 {
		cfg, _ := t.config.Get(store.ConfigKey)
		if work.Objects, err = t.render(c, rel, t.epoch, cfg.MgmtAddresses, t.hosts, t.targets.All()); err != nil {
			return err
		}
	}
	t.give(c.ID, &work)
	return nil
}

// work is what is ordered in a cluster.
func (t *term) work(id mesh.KubeID) (kube.Work, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.works[id]
	return w, ok
}

// give orders work, or with nil that nobody looks at the cluster.
func (t *term) give(id mesh.KubeID, work *kube.Work) {
	t.mu.Lock()
	old, had := t.works[id]
	same := work == nil && !had || work != nil && had && reflect.DeepEqual(old, *work)
	if work == nil {
		delete(t.works, id)
	} else {
		t.works[id] = *work
	}
	t.mu.Unlock()
	if same {
		return
	}
	switch s := t.sight(id); {
	case work == nil:
		s.last, s.still, s.asked = nil, still{}, time.Time{}
	case !had, old.Mark != work.Mark:
		s.last, s.still, s.asked = nil, still{}, t.instant()
	}
	t.Wake()
}

// mark is of one connection to a cluster and one removal there: what was seen before
// tells nothing of what is.
func mark(c mesh.KubeCluster) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		c.Server, c.CA, c.ServerName, string(c.Auth), string(c.Credential), c.Namespace, fmt.Sprint(c.Removals),
	}))
	return hex.EncodeToString(sum[:8])
}

// idle: nothing is wanted in the cluster, and nothing of ours should be there.
func idle(c mesh.KubeCluster) bool { return c.Wanted.Number == 0 && !c.Removing }

// sweeps says whether to look now for what is left in a cluster where nothing is
// wanted: a leader that was paused in the middle of a write may have made it again
// after its successor had taken it away. That is looked for when the office begins,
// and from time to time. Where nothing was ever taken away there is nothing of that
// kind: what is there is of a time that a restored backup does not know, and serves.
func (t *term) sweeps(c mesh.KubeCluster) bool {
	if c.Removals == 0 {
		return false
	}
	s, now := t.sight(c.ID), t.instant()
	if _, at := t.work(c.ID); !at {
		return s.swept.IsZero() || now.Sub(s.swept) >= t.pace.Sweep
	}
	o := s.about(c)
	if o == nil && now.Sub(s.asked) < t.pace.Silence || o != nil && o.Failure == kube.NoFailure && !o.Removed {
		return true
	}
	s.swept = now
	return false
}
