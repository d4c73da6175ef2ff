package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func ask(t *testing.T, s *kubetest.Server, kind kube.AskKind, o []kube.Object) kube.Answer {
	t.Helper()
	return Ask(t.Context(), kube.Ask{Kind: kind, API: s.API(space), Mesh: theMesh, Cluster: cluster, Objects: o})
}

func TestACheckNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	if a := ask(t, s, kube.AskCheck, nil); a.Version != kubetest.Version || a.Failure != kube.NoFailure || len(a.Missing) > 0 {
		t.Errorf("all is well, and it says %+v", a)
	}
	s.Deny("create", "deployments", true)
	s.Deny("get", "pods/log", true)
	s.Deny("create", "tokenreviews", true)
	s.Missing(space, true)
	a := ask(t, s, kube.AskCheck, nil)
	want := []string{"create deployments in entries", "get pods/log in entries", "create tokenreviews", "find the namespace entries"}
	if a.Failure != kube.NoFailure || !slices.Equal(a.Missing, want) {
		t.Errorf("it says %+v; want %q", a, want)
	}
}

func TestANamespaceThatLetsAnyPodInIsNamed(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	s.Unguard(space, true)
	if a := ask(t, s, kube.AskCheck, nil); !a.Unguarded || a.Failure != kube.NoFailure {
		t.Errorf("it says %+v", a)
	}
	p := quick()
	p.fullLook = 50 * time.Millisecond
	d := open(t, s, p)
	d.set(layer(), 1, first)
	o := d.until(0, "is complete", isComplete(1))
	if len(o.Problems) != 1 || !strings.Contains(o.Problems[0], "Namespace/entries: it does not enforce the Pod Security standard restricted") {
		t.Errorf("its problems are %q", o.Problems)
	}
	s.Unguard(space, false)
	d.until(0, "is no problem", func(o kube.Observation) bool { return o.Release == 1 && len(o.Problems) == 0 })
}

func TestAPlanSaysWhatWouldChangeAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	a := ask(t, s, kube.AskPlan, objects(t, layer(), 1, first))
	if a.Failure != kube.NoFailure || len(a.Changes) != 6 || len(s.Writes()) != 0 || s.Get(t, "Service", space, kube.Name) != nil {
		t.Fatalf("it says %+v", a)
	}
	for _, c := range a.Changes {
		if c.Action != kube.Create || !strings.HasPrefix(c.Diff, "@@ -0,0 +1,") || strings.Contains(c.Diff, "\n-") {
			t.Errorf("%s: %s\n%s", c.Object, c.Action, c.Diff)
		}
	}
	s.Roll(t, nil)
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	d.until(0, "is complete", isComplete(1))
	d.stop()
	for _, c := range ask(t, s, kube.AskPlan, objects(t, layer(), 1, kube.Epoch{Mesh: 7, Leader: 7})).Changes {
		if c.Action != kube.Keep || c.Diff != "" {
			t.Errorf("nothing changed, and it says %+v", c)
		}
	}
}

func TestAPlanShowsChangesConflictsAndRemovals(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	d.stop()
	s.Edit(t, "kubectl-edit", "PodDisruptionBudget", space, kube.Name, func(o kubetest.Object) { o["spec"].(map[string]any)["maxUnavailable"] = 2 })
	l := layer()
	l.Replicas, l.OpenNetwork = 0, true
	l.Autoscale = mesh.EntryAutoscale{Min: 2, Max: 5, CPU: 50}
	l.Image = "registry.example.net/meshctl:2"
	s.Requests()
	a := ask(t, s, kube.AskPlan, objects(t, l, 2, first))
	got := map[string]kube.Change{}
	for _, c := range a.Changes {
		got[c.Object] = c
	}
	for object, action := range map[string]kube.ChangeAction{
		"Deployment/meshctl-entry": kube.Update, "HorizontalPodAutoscaler/meshctl-entry": kube.Create, "NetworkPolicy/meshctl-entry": kube.Remove,
		"PodDisruptionBudget/meshctl-entry": kube.Update, "Service/meshctl-entry": kube.Keep,
	} {
		if got[object].Action != action {
			t.Errorf("%s: %q; want %q\n%s", object, got[object].Action, action, got[object].Diff)
		}
	}
	diff := got["Deployment/meshctl-entry"].Diff
	if !strings.Contains(diff, "-        image: registry.example.net/meshctl:1\n+        image: registry.example.net/meshctl:2\n") || strings.Contains(diff, "replicas: 1") {
		t.Errorf("the change of the Deployment:\n%s", diff)
	}
	if c := got["PodDisruptionBudget/meshctl-entry"].Conflicts; len(c) != 1 || c[0].Manager != "kubectl-edit" {
		t.Errorf("the conflict: %+v", c)
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("it wrote: %q", w)
	}
}

func TestAPlanSaysWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Edit(t, "kubectl", "Service", space, kube.Name, func(o kubetest.Object) { o["spec"] = map[string]any{"type": "ClusterIP"} })
	a := ask(t, s, kube.AskPlan, objects(t, layer(), 1, first))
	if a.Failure != kube.Foreign || a.Detail != "Service/meshctl-entry is there, and not ours" || len(a.Changes) != 6 {
		t.Errorf("it says %+v", a)
	}
}

func TestDiffs(t *testing.T) {
	lines := func(s string) []string { return strings.Fields(s) }
	for name, tt := range map[string]struct{ a, b, want string }{
		"the same":        {"a b", "a b", ""},
		"nothing at all":  {"", "", ""},
		"new":             {"", "a b", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"gone":            {"a b", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		"one line":        {"1 2 3 4 x 5 6 7 8", "1 2 3 4 y 5 6 7 8", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-x\n+y\n 5\n 6\n 7\n"},
		"two near":        {"x 1 2 3 4 5 6 x", "y 1 2 3 4 5 6 y", "@@ -1,8 +1,8 @@\n-x\n+y\n 1\n 2\n 3\n 4\n 5\n 6\n-x\n+y\n"},
		"two far":         {"x 1 2 3 4 5 6 7 x", "y 1 2 3 4 5 6 7 y", "@@ -1,4 +1,4 @@\n-x\n+y\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-x\n+y\n"},
		"at the very end": {"1 2", "1 2 3", "@@ -1,2 +1,3 @@\n 1\n 2\n+3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unified(lines(tt.a), lines(tt.b)); got != tt.want {
				t.Errorf("it is\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestADiffOfVeryLongObjectsIsStillOne(t *testing.T) {
	a, b := make([]string, 3000), make([]string, 3001)
	got := edits(a, b)
	if count(got, '-') != len(a) || count(got, '+') != len(b) {
		t.Errorf("%d and %d lines", count(got, '-'), count(got, '+'))
	}
}
