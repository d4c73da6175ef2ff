package kubes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// remove wants the entries taken away, as an operator does.
func (w *world) remove() {
	w.t.Helper()
	w.edit(func(c *mesh.KubeCluster) { c.Removing, c.Removals = true, c.Removals+1 })
}

func (w *world) stored() mesh.KubeCluster {
	w.t.Helper()
	c, err := w.st.Kubes.Get(w.t.Context(), w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Value
}

// The end of one removal does not end the next.
func TestARemovalEndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.lead()
	w.deploy("registry.example.net/meshctl:1")
	w.says(s, 1, running(1), "it runs", is(mesh.KubeComplete, 1, 0))
	w.remove()
	gone := kube.Observation{Removed: true}
	w.says(s, 0, gone, "it is gone", is(mesh.KubeIdle, 0, 0))
	first := kube.Observation{Cluster: w.cluster, Removed: true, Mark: mark(w.stored())}
	w.edit(func(c *mesh.KubeCluster) {
		c.Wanted = mesh.EntryRelease{Number: 2, Pods: 2, Layer: mesh.EntryLayer{Image: "registry.example.net/meshctl:1"}}
	})
	w.ordered(s, 2)
	w.remove()
	work := w.ordered(s, 0)
	if work.Mark == first.Mark {
		t.Fatal("both removals have one mark")
	}
	for range 20 {
		s.Ended(first)
		w.says(s, 0, kube.Observation{Pods: pods(2, 1)}, "it goes", is(mesh.KubeRemoving, 0, 0))
	}
	if !w.stored().Removing {
		t.Error("the end of the first removal has ended the second")
	}
	w.says(s, 0, gone, "it is gone, too", is(mesh.KubeIdle, 0, 0))
}

// What a leader of before made in a cluster without entries is looked for, and told.
func TestWhatIsLeftIsSweptAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.lead()
	// What runs where nothing was ever taken away is of a time that a restored backup does not know.
	eventually(t, "the cluster was looked at", func() bool { return w.state().Rollout.Phase == mesh.KubeIdle })
	if n := len(s.Order()); n != 0 {
		t.Fatalf("%d orders for a cluster that was never emptied", n)
	}
	w.edit(func(c *mesh.KubeCluster) { c.Removals = 1 })
	if work := w.ordered(s, 0); len(work.Objects) != 0 {
		t.Errorf("%d objects are ordered", len(work.Objects))
	}
	left := kube.Observation{Swept: []string{"Deployment/meshctl-entry"}, Version: "v1.37.2"}
	w.says(s, 0, left, "people are told", func(mesh.KubeState) bool { return len(w.events(mesh.EventKubeDrift)) == 1 })
	if e := w.events(mesh.EventKubeDrift)[0]; !strings.Contains(e.Cause, "was left where no entries are wanted") || !strings.Contains(e.Cause, "Deployment/meshctl-entry") {
		t.Errorf("told %q", e.Cause)
	}
	w.says(s, 0, kube.Observation{Removed: true, Version: "v1.37.2"}, "nothing is left", func(mesh.KubeState) bool { return len(s.Order()) == 0 })
	if st := w.state(); st.Seen.IsZero() || st.Version != "v1.37.2" || st.Drift != 0 || !st.Well() {
		t.Errorf("%+v", st)
	}
	w.skew.Store(int64(11 * time.Minute))
	w.ordered(s, 0) // again
	w.deploy("registry.example.net/meshctl:1")
	w.says(s, 1, running(1), "it runs", is(mesh.KubeComplete, 1, 0))
}

func TestANamespaceThatIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.lead()
	w.deploy("registry.example.net/meshctl:1")
	seen := func(uid string) kube.Observation { o := running(1); o.NamespaceUID = uid; return o }
	w.says(s, 1, seen("uid-a"), "it is known", func(mesh.KubeState) bool { return w.stored().NamespaceUID == "uid-a" })
	if n := len(w.events(mesh.EventKubeDrift)); n != 0 {
		t.Errorf("told %d times of the first look", n)
	}
	w.says(s, 1, seen("uid-b"), "it was made anew", func(mesh.KubeState) bool { return w.stored().NamespaceUID == "uid-b" })
	if e := w.events(mesh.EventKubeDrift); len(e) != 1 || !strings.Contains(e[0].Cause, "another one than before") {
		t.Errorf("told %+v", e)
	}
	other := mesh.NewKubeID()
	w.change(func(tx *store.Tx) error {
		return store.Create(tx, w.st.Kubes, other, mesh.KubeCluster{ID: other, Name: "lyon", NamespaceUID: "uid-c"})
	})
	w.says(s, 1, seen("uid-c"), "two have one", func(st mesh.KubeState) bool {
		return len(st.Problems) == 1 && strings.Contains(st.Problems[0], "that of cluster lyon")
	})
	w.deploy("registry.example.net/meshctl:2") // and what is seen is still of the release before
	late := seen("uid-c")
	late.Cluster, late.Release, late.Mark = w.cluster, 1, w.ordered(s, 2).Mark
	for range 100 {
		s.Ended(late)
		if p := w.state().Problems; len(p) > 1 {
			t.Fatalf("it is said again and again: %q", p)
		}
	}
	w.edit(func(c *mesh.KubeCluster) { c.Wanted, c.Earlier = c.Earlier[0], nil })
	if w.stored().NamespaceUID != "uid-b" {
		t.Error("it was taken from another")
	}
	// What was seen over another connection tells nothing.
	w.edit(func(c *mesh.KubeCluster) { c.Server = "https://192.0.2.8:6443" })
	work := w.ordered(s, 1)
	eventually(t, "the new connection is ordered", func() bool { work = w.ordered(s, 1); return work.API.Server == "https://192.0.2.8:6443" })
	o := seen("uid-d")
	o.Cluster, o.Release, o.Mark = w.cluster, 1, "of before"
	s.Ended(o)
	w.says(s, 1, seen("uid-e"), "it is taken", func(mesh.KubeState) bool { return w.stored().NamespaceUID == "uid-e" })
	for _, e := range w.events(mesh.EventKubeDrift) {
		if strings.Contains(e.Cause, "uid-d") {
			t.Errorf("told %+v", e)
		}
	}
}

// Of thousands of pods most are known by their UIDs alone, and those that are gone are
// noticed all the same; while some are not named, nobody is gone.
func TestPodsAreMissedAmongThousands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entry := func(uid string) mesh.EntryID {
		e := mesh.Entry{ID: mesh.NewEntryID(), Name: "pod-" + uid, Joined: time.Now().Add(-time.Hour), Pod: mesh.EntryPod{Cluster: w.cluster, UID: uid}}
		w.change(func(tx *store.Tx) error { return store.Create(tx, w.st.Entries, e.ID, e) })
		return e.ID
	}
	there, gone := entry("uid-2999"), entry("uid-none")
	isGone := func(id mesh.EntryID) bool {
		e, err := w.st.Entries.Get(t.Context(), id)
		return err == nil && !e.Value.Pod.Gone.IsZero()
	}
	w.deploy("registry.example.net/meshctl:1")
	s := w.lead()
	o := running(1)
	o.Tally, o.Pods = mesh.KubeTally{All: 3000, Ready: 2990}, nil
	for i := range 2999 {
		if p := (mesh.KubePod{UID: fmt.Sprintf("uid-%04d", i), Release: 1, Ready: true}); len(o.Pods) < mesh.MaxKubePods {
			o.Pods = append(o.Pods, p)
		} else {
			o.More = append(o.More, p.UID)
		}
	}
	w.says(s, 1, o, "they are counted", func(st mesh.KubeState) bool {
		return len(st.Pods) == mesh.MaxKubePods && st.Counted().Ready == 2990 && st.Rollout.Phase == mesh.KubeComplete
	})
	if isGone(there) || isGone(gone) {
		t.Error("somebody is gone, and one pod was not named")
	}
	o.More = append(o.More, "uid-2999")
	w.says(s, 1, o, "one is gone", func(mesh.KubeState) bool { return isGone(gone) })
	if isGone(there) {
		t.Error("a pod that is there is gone")
	}
}
