package client

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What is wanted changes faster than the cluster follows: the last word counts, and
// every report says of which word it is.
func TestRemovalsAndDeploymentsInQuickSuccession(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	for i := range 5 {
		gone := d.work(nil, 0, first)
		gone.Mark = fmt.Sprint("removal ", i)
		d.keeper.Set(gone)
		if i%2 == 1 { // otherwise it is another word before that one was heard
			eventually(t, "the deployment goes", func() bool { return len(s.Names(t, "Deployment", space)) == 0 })
			for _, name := range s.Names(t, "Pod", space) { // as the cluster itself would
				s.Delete(t, "Pod", space, name)
			}
			d.until(0, "is empty", func(o kube.Observation) bool { return o.Removed && o.Mark == gone.Mark })
			if left := s.Names(t, "Deployment", space); len(left) > 0 {
				t.Fatalf("%q are left", left)
			}
		}
		back := d.work(objects(t, layer(), int64(i+2), first), int64(i+2), first)
		back.Mark = gone.Mark
		d.keeper.Set(back)
		d.until(0, "is complete", isComplete(int64(i+2)))
	}
	d.until(d.now(), "is complete still", isComplete(6))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.all {
		if o.Removed && o.Release != 0 {
			t.Errorf("removed, with release %d", o.Release)
		}
	}
}

// A watch that is behind shows nothing of what was just made: only a list says that
// nothing is left.
func TestNothingIsLeftOnlyWhenAListSaysSo(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	o := objects(t, layer(), 1, first)[0]
	if err := s.Apply(t, manager, space, kubetest.Object(o), false); err != nil {
		t.Fatal(err)
	}
	c, err := dial(s.API(space))
	if err != nil {
		t.Fatal(err)
	}
	defer c.idle()
	k := &Keeper{pace: quick()}
	w := newSession(k, c, kube.Work{API: s.API(space), Cluster: cluster, Mesh: theMesh, Epoch: first, Mark: "removal 1"})
	for _, kind := range kinds {
		w.cache.replace(kind.name, nil)
	}
	w.tryPass(t.Context())
	got := w.observe(t.Context())
	if got.Removed || !slices.Equal(got.Swept, []string{"ServiceAccount/" + kube.Name}) || got.Mark != "removal 1" {
		t.Errorf("removed %v, swept %q, broken by %v", got.Removed, got.Swept, w.broken)
	}
	w.tryPass(t.Context())
	if got = w.observe(t.Context()); !got.Removed || got.NamespaceUID == "" {
		t.Errorf("%+v", got)
	}
}

func TestThousandsOfPodsAreCountedAndNamed(t *testing.T) {
	t.Parallel()
	const n = 3000
	c, err := dial(kubetest.New(t).API(space))
	if err != nil {
		t.Fatal(err)
	}
	defer c.idle()
	s := newSession(&Keeper{pace: quick()}, c, kube.Work{Cluster: cluster, Mesh: theMesh, Objects: objects(t, layer(), 2, first), Release: 2, API: kube.API{Namespace: space}})
	var items []unstructured.Unstructured
	for i := range n {
		status, release := "True", "2"
		if i%1000 == 999 {
			status = "False"
		}
		if i < 7 {
			release = "1"
		}
		items = append(items, unstructured.Unstructured{Object: map[string]any{
			"kind":     "Pod",
			"metadata": map[string]any{"name": fmt.Sprintf("pod-%04d", i), "uid": fmt.Sprintf("uid-%04d", i), "labels": map[string]any{kube.LabelRelease: release}},
			"status":   map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": status}}},
		}})
	}
	s.cache.replace("Pod", items)
	o := s.observe(t.Context())
	if o.Tally != (mesh.KubeTally{All: n, Ready: n - 3}) || o.Ready != n-3-7 || o.Old != 7 || o.Earlier != 7 {
		t.Errorf("counted %+v, %d ready, %d old", o.Tally, o.Ready, o.Old)
	}
	if len(o.Pods) != mesh.MaxKubePods || o.Pods[0].Ready || o.Pods[2].Name != "pod-2999" || !o.Pods[3].Ready {
		t.Errorf("%d pods, from %+v", len(o.Pods), o.Pods[0])
	}
	all := slices.Clone(o.More)
	for _, p := range o.Pods {
		all = append(all, p.UID)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != n {
		t.Errorf("%d pods are named", len(all))
	}
}

func TestANamespaceThatWasMadeAnewIsSeen(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	p := quick()
	p.fullLook = p.beat
	d := open(t, s, p)
	d.set(layer(), 1, first)
	uid := d.until(0, "is complete", isComplete(1)).NamespaceUID
	a := Ask(t.Context(), kube.Ask{Kind: kube.AskCheck, API: s.API(space), Mesh: theMesh, Cluster: cluster})
	if uid == "" || a.NamespaceUID != uid {
		t.Errorf("seen as %q, and asked as %q", uid, a.NamespaceUID)
	}
	s.Anew()
	d.until(0, "is of another", func(o kube.Observation) bool { return o.NamespaceUID != "" && o.NamespaceUID != uid })
}

// Who applies by other means what a dry run prints has our labels on it: that is not
// ours to take away.
func TestWhatSomebodyAppliesByHandStays(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	all := objects(t, layer(), 1, kube.Epoch{Mesh: 1})
	for _, o := range all {
		if err := s.Apply(t, "kubectl", space, kubetest.Object(o), false); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, s, quick())
	d.keeper.Set(d.work(nil, 0, first))
	if o := d.until(0, "finds nothing of ours", func(o kube.Observation) bool { return o.Removed }); len(o.Swept) > 0 {
		t.Errorf("%q are swept", o.Swept)
	}
	for _, o := range all {
		if s.Get(t, o.Kind(), space, kube.Name) == nil {
			t.Errorf("%s is gone", o.Kind())
		}
	}
}

// A connection that cannot even be tried is told as one of this work.
func TestAConnectionThatCannotBeIsTold(t *testing.T) {
	t.Parallel()
	d := open(t, kubetest.New(t), quick())
	w := d.work(nil, 0, first)
	w.API.Auth, w.Mark = mesh.KubeCertificate, "connection 1"
	d.keeper.Set(w)
	if o := d.until(0, "says why", func(o kube.Observation) bool { return o.Failure == kube.Other }); o.Mark != w.Mark || o.Detail == "" {
		t.Errorf("%+v", o)
	}
}

// Who may not look at pods is told that a release fails all the same.
func TestAReleaseThatIsStuckWithoutPodsToSee(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, func(kubetest.Object) kubetest.Start { return kubetest.Start{Waiting: "ImagePullBackOff"} })
	s.Deny("list", "pods", true)
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	d.until(0, "has begun", func(o kube.Observation) bool { return o.Applied && o.Updated > 0 })
	s.Expire(t, space, kube.Name)
	d.until(0, "is stuck", func(o kube.Observation) bool { return o.Stuck && o.Failure == kube.Denied && o.Why != "" })
}
