package kubes

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func running(release int64) kube.Observation {
	p := pods(release, 3)
	for i := range p {
		p[i].UID = string(rune('a' + i))
	}
	return kube.Observation{
		Applied: true, Desired: 3, Updated: 3, Ready: 3, Pods: p, Version: "v1.37.2",
		Addresses: []mesh.KubeAddress{{Host: "127.0.0.1", Port: 1, Source: mesh.AddressBalancer}},
	}
}

func is(phase mesh.KubePhase, ran, parked int64) func(mesh.KubeState) bool {
	return func(st mesh.KubeState) bool { return st.Rollout.Phase == phase && st.Ran == ran && st.Parked == parked }
}

// A release rolls, the next one fails and is rolled back, while leaders come and go
// at every step.
func TestARolloutThroughManyLeaders(t *testing.T) {
	w := newWorld(t)
	s := w.lead()
	w.deploy("registry.example/meshctl:1")
	work := w.ordered(s, 1)
	text, err := json.Marshal(work.Objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"registry.example/meshctl:1", "198.51.100.1/32", "mgmt.example.net:8443"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if work.API.Credential != "the token of the cluster" || work.API.Namespace != "meshctl-entry" || work.Mesh != w.mesh || work.Epoch.Mesh != 3 || work.Epoch.Leader == 0 {
		t.Errorf("%+v", work)
	}
	w.says(s, 1, running(1), "it runs", is(mesh.KubeComplete, 1, 0))
	if st := w.state(); st.Server != s.Server || st.Version != "v1.37.2" || len(st.Addresses) != 1 || len(st.Pods) != 3 {
		t.Errorf("%+v", st)
	}

	w.deploy("registry.example/meshctl:2")
	half := kube.Observation{Applied: true, Desired: 3, Updated: 1, Old: 3, Pods: append(pods(1, 3), mesh.KubePod{Release: 2})}
	w.says(s, 2, half, "it rolls", is(mesh.KubeRolling, 1, 0))
	s.stop()
	s = w.lead() // in the middle of it
	if next := w.ordered(s, 2); next.Epoch.Leader <= work.Epoch.Leader {
		t.Errorf("epoch %v after %v", next.Epoch, work.Epoch)
	}
	half.Stuck, half.Why = true, "pod x: ImagePullBackOff\nlast words"
	w.says(s, 2, half, "it is parked", is(mesh.KubeFailed, 1, 2))
	s.stop()
	s = w.lead()
	w.says(s, 1, half, "what ran before comes back", is(mesh.KubeFailed, 1, 2))
	w.says(s, 1, running(1), "it is back", is(mesh.KubeComplete, 1, 2))
	if n := len(w.events(mesh.EventEntriesRolledBack)); n != 1 {
		t.Errorf("told %d times that it was rolled back", n)
	}

	w.deploy("registry.example/meshctl:3")
	w.says(s, 3, running(3), "the next one runs", is(mesh.KubeComplete, 3, 0))
	s.stop()
	if s.Order() != nil {
		t.Error("it orders without the office")
	}
	s.Ended(running(3))
	if n := len(w.events(mesh.EventEntriesRolled)); n != 3 {
		t.Errorf("told %d times of releases that run", n)
	}
}

func TestEntriesAreTakenAway(t *testing.T) {
	w := newWorld(t)
	s := w.lead()
	w.deploy("registry.example/meshctl:1")
	w.says(s, 1, running(1), "it runs", is(mesh.KubeComplete, 1, 0))
	w.edit(func(c *mesh.KubeCluster) { c.Removing, c.Paused = true, true })
	if work := w.ordered(s, 0); len(work.Objects) != 0 {
		t.Errorf("%d objects are ordered", len(work.Objects))
	}
	w.says(s, 0, kube.Observation{Pods: pods(1, 1)}, "it goes", is(mesh.KubeRemoving, 1, 0))
	w.says(s, 0, kube.Observation{Removed: true}, "it is gone", is(mesh.KubeIdle, 0, 0))
	c, err := w.st.Kubes.Get(t.Context(), w.cluster)
	if err != nil || c.Value.Wanted.Number != 0 || c.Value.Removing || c.Value.Paused || len(c.Value.Earlier) != 1 {
		t.Errorf("%+v, %v", c.Value, err)
	}
	eventually(t, "nothing is ordered", func() bool { return len(s.Order()) == 0 })

	w.change(func(tx *store.Tx) error { return store.Delete(tx, w.st.Kubes, w.cluster) })
	eventually(t, "its state goes with it", func() bool {
		_, err := w.st.KubeStates.Get(t.Context(), w.cluster)
		return errors.Is(err, mesh.ErrNotFound)
	})
}

// Nothing is changed in a cluster while it is not known where management is: its
// entries would be cut off.
func TestNothingIsOrderedBeforeManagementIsFound(t *testing.T) {
	w := newWorld(t)
	w.found.Store(nil)
	s := w.lead()
	w.deploy("registry.example/meshctl:1")
	eventually(t, "it says so", func() bool {
		return len(w.state().Problems) == 1 && strings.Contains(w.state().Problems[0], "mgmt.example.net")
	})
	if len(s.Order()) != 0 {
		t.Errorf("%+v is ordered", s.Order())
	}
	if _, err := s.Render(t.Context(), mesh.KubeCluster{}, mesh.EntryRelease{}); mesh.Kind(err) != mesh.ErrUnavailable || mesh.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	w.found.Store(&[]netip.Addr{netip.MustParseAddr("198.51.100.1")})
	w.ordered(s, 1)
	eventually(t, "it is over", func() bool { return len(w.state().Problems) == 0 })
	w.found.Store(nil) // what was found counts until something else is
	w.says(s, 1, running(1), "it goes on", is(mesh.KubeComplete, 1, 0))
	w.found.Store(&[]netip.Addr{netip.MustParseAddr("198.51.100.2")})
	eventually(t, "both are allowed", func() bool {
		text, err := json.Marshal(s.Order()[0].Objects)
		return err == nil && strings.Contains(string(text), "198.51.100.1/32") && strings.Contains(string(text), "198.51.100.2/32")
	})
}

func TestPodsThatAreGone(t *testing.T) {
	w := newWorld(t)
	pod := func(name, uid string, cluster mesh.KubeID) mesh.EntryID {
		e := mesh.Entry{ID: mesh.NewEntryID(), Name: name, Joined: time.Now().Add(-time.Hour), Pod: mesh.EntryPod{Cluster: cluster, UID: uid}}
		w.change(func(tx *store.Tx) error {
			node := "entry/" + string(e.ID)
			return errors.Join(store.Create(tx, w.st.Entries, e.ID, e), store.Create(tx, w.st.Status, node, mesh.NodeStatus{Node: node, Policy: mesh.PolicyEnforced}))
		})
		return e.ID
	}
	there, gone, other := pod("one", "a", w.cluster), pod("two", "z", w.cluster), pod("three", "a", mesh.NewKubeID())
	isGone := func(id mesh.EntryID) bool {
		e, err := w.st.Entries.Get(t.Context(), id)
		return err == nil && !e.Value.Pod.Gone.IsZero()
	}
	w.deploy("registry.example/meshctl:1")
	s := w.lead()
	eventually(t, "the pod of a cluster that is forgotten is gone", func() bool { return isGone(other) })
	w.says(s, 1, kube.Observation{Failure: kube.Unreachable}, "it is away", func(st mesh.KubeState) bool { return !st.Well() })
	if isGone(there) || isGone(gone) {
		t.Error("pods of a cluster that does not answer are gone")
	}
	w.says(s, 1, running(1), "one is gone", func(mesh.KubeState) bool { return isGone(gone) })
	if isGone(there) {
		t.Error("a pod that is there is gone")
	}
	w.says(s, 1, running(1), "it enforces its policy", func(st mesh.KubeState) bool { return st.Policy == mesh.PolicyEnforced })
	w.change(func(tx *store.Tx) error {
		return store.Update(tx, w.st.Status, "entry/"+string(there), func(n *mesh.NodeStatus) error { n.Policy = mesh.PolicyOpen; return nil })
	})
	w.says(s, 1, running(1), "it does not", func(st mesh.KubeState) bool { return st.Policy == mesh.PolicyOpen })
	back := running(1)
	back.Pods = append(back.Pods, mesh.KubePod{UID: "z", Release: 1})
	w.says(s, 1, back, "it is there after all", func(mesh.KubeState) bool { return !isGone(gone) })
}

func TestWhatOthersChangeIsToldSeldom(t *testing.T) {
	w := newWorld(t)
	w.deploy("registry.example/meshctl:1")
	s := w.lead()
	o := running(1)
	o.Drift = []string{"Service/meshctl-entry was changed"}
	w.says(s, 1, o, "counted", func(st mesh.KubeState) bool { return st.Drift > 3 })
	if e := w.events(mesh.EventKubeDrift); len(e) != 1 || !strings.Contains(e[0].Cause, "Service/meshctl-entry was changed") {
		t.Errorf("told %+v", e)
	}
	w.skew.Store(int64(time.Hour))
	w.says(s, 1, o, "told again", func(mesh.KubeState) bool { return len(w.events(mesh.EventKubeDrift)) == 2 })
}

// A state is written at once when somebody may wait for it, and figures seldom.
func TestFiguresAreWrittenSeldom(t *testing.T) {
	term := &term{Service: &Service{}, pace: Pace{Write: time.Hour, Beat: time.Hour}}
	now := time.Now()
	st := mesh.KubeState{Rollout: mesh.KubeRollout{Phase: mesh.KubeRolling, Updated: 1}}
	for name, c := range map[string]struct {
		change func(*mesh.KubeState)
		wrote  time.Duration // ago
		want   bool
	}{
		"the same":                 {func(*mesh.KubeState) {}, 24 * time.Hour, false},
		"empty instead of nothing": {func(v *mesh.KubeState) { v.Pods = []mesh.KubePod{} }, 24 * time.Hour, false},
		"a figure, soon":           {func(v *mesh.KubeState) { v.Rollout.Updated = 2 }, time.Minute, false},
		"a figure, later":          {func(v *mesh.KubeState) { v.Rollout.Updated = 2 }, 2 * time.Hour, true},
		"a sign of life, soon":     {func(v *mesh.KubeState) { v.Seen = now }, time.Minute, false},
		"a sign of life, later":    {func(v *mesh.KubeState) { v.Seen = now }, 2 * time.Hour, true},
		"the phase":                {func(v *mesh.KubeState) { v.Rollout.Phase = mesh.KubeComplete }, 0, true},
		"a conflict":               {func(v *mesh.KubeState) { v.Conflicts = []mesh.KubeConflict{{Field: "x"}} }, 0, true},
		"an address":               {func(v *mesh.KubeState) { v.Addresses = []mesh.KubeAddress{{Host: "h"}} }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			want := st
			c.change(&want)
			if got := term.worth(st, want, &sight{wrote: now.Add(-c.wrote)}, now); got != c.want {
				t.Errorf("worth it: %v", got)
			}
		})
	}
}

func TestMetricsOfClusters(t *testing.T) {
	w := newWorld(t)
	w.deploy("registry.example/meshctl:1")
	s := w.lead()
	w.says(s, 1, running(1), "it runs", is(mesh.KubeComplete, 1, 0))
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.Collectors()...)
	ready := func() float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if f.GetName() == "meshctl_mgmt_kube_pods" && labels["cluster"] == "paris" && labels["state"] == "ready" {
					return m.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
	eventually(t, "three pods are ready", func() bool { return ready() == 3 })
	eventually(t, "an address that leads nowhere is a problem", func() bool {
		p := s.Problems()
		return len(p) == 1 && strings.HasPrefix(p[0], "cluster paris: address 127.0.0.1:1 ")
	})
}
