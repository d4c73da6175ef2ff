package kubes

import (
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
	if c.Wanted.Number == 0 && !c.Removing {
		t.give(c.ID, nil)
		return nil
	}
	st, _ := t.states.Get(c.ID)
	rel := c.Ordered(st)
	api, err := t.api(c)
	if err != nil {
		return err
	}
	work := kube.Work{Cluster: c.ID, API: api, Mesh: t.Mesh, Epoch: t.epoch, Release: rel.Number}
	if !c.Removing {
		cfg, _ := t.config.Get(store.ConfigKey)
		if work.Objects, err = t.render(c, rel, t.epoch, cfg.MgmtAddresses, t.hosts, t.targets.All()); err != nil {
			return err
		}
	}
	t.give(c.ID, &work)
	return nil
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
		s.last, s.asked = nil, time.Time{}
	case !had:
		s.last, s.asked = nil, t.now()
	}
	t.Wake()
}
