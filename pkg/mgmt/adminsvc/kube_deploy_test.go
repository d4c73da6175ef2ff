package adminsvc

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestReleasesAreNumberedWithoutGaps(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	for n := range int64(mesh.MaxReleases + 3) {
		v = r.deploy("north", n, layer(int(n)+1))
		if v.Wanted.Number != n+1 || v.Wanted.By != "admin:test" || v.Wanted.Why != "deploy" {
			t.Fatalf("release %+v, want number %d", v.Wanted, n+1)
		}
	}
	if len(v.Earlier) != mesh.MaxReleases || v.Earlier[0].Number != 3 || v.Earlier[9].Number != 12 {
		t.Errorf("%d earlier, from %d", len(v.Earlier), v.Earlier[0].Number)
	}
	// A different number of pods restarts none of them.
	if v.Wanted.Pods != 1 {
		t.Errorf("pods of release %d are those of %d", v.Wanted.Number, v.Wanted.Pods)
	}
	l := layer(3)
	l.Image = "registry.example.net/meshctl:2.0"
	if v = r.deploy("north", v.Wanted.Number, l); v.Wanted.Pods != v.Wanted.Number {
		t.Errorf("pods of release %d are those of %d", v.Wanted.Number, v.Wanted.Pods)
	}
}

func TestTheSameOnceMoreIsNoReleaseUnlessItFailed(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	r.deploy("north", 0, layer(2))
	if v = r.deploy("north", 1, layer(2)); v.Wanted.Number != 1 {
		t.Errorf("it is release %d", v.Wanted.Number)
	}
	r.state(v.ID, mesh.KubeState{Parked: 1, ParkedWhy: "pod x: ImagePullBackOff"})
	if v = r.deploy("north", 1, layer(2)); v.Wanted.Number != 2 || v.Wanted.Pods != 2 || len(v.Earlier) != 1 {
		t.Errorf("it is release %d with pods of %d after %d", v.Wanted.Number, v.Wanted.Pods, len(v.Earlier))
	}
}

func TestWhoSawSomethingElseDoesNotDeploy(t *testing.T) {
	r, _ := newKubeRig(t)
	r.cluster("north")
	r.deploy("north", 0, layer(2))
	deploy := func(req admin.EntryDeployRequest) error { _, err := r.entryDeploy(r.ctx(), req); return err }
	refused(t, deploy(admin.EntryDeployRequest{Ref: "north", Layer: layer(3), Why: "deploy"}), mesh.ErrConflict, "release 1 meanwhile")
	refused(t, deploy(admin.EntryDeployRequest{Ref: "north", Layer: layer(3), Base: 1, Why: "fun"}), mesh.ErrInvalid, "want deploy")
	refused(t, deploy(admin.EntryDeployRequest{Ref: "north", Layer: mesh.EntryLayer{Image: "NO IMAGE"}, Base: 1, Why: "deploy"}), mesh.ErrInvalid, "image")
	refused(t, deploy(admin.EntryDeployRequest{Ref: "south", Layer: layer(3), Why: "deploy"}), mesh.ErrNotFound, "south")
	classed := layer(2)
	classed.Service.Class = "example.net/other"
	refused(t, deploy(admin.EntryDeployRequest{Ref: "north", Layer: classed, Base: 1, Why: "deploy"}), mesh.ErrConflict, "never changes it")
	must(r.entryUninstall(r.ctx(), admin.Ref{Ref: "north"}))(t)
	refused(t, deploy(admin.EntryDeployRequest{Ref: "north", Layer: layer(3), Base: 1, Why: "deploy"}), mesh.ErrConflict, "taken away")
}

func TestWhatWouldBeAppliedIsShownAndNothingChanges(t *testing.T) {
	r, f := newKubeRig(t)
	r.cluster("north")
	req := admin.EntryDeployRequest{Ref: "north", Layer: layer(5)}
	asked := len(f.asked)
	m := must(r.entryRender(r.as(mesh.AdminAuditor), req))(t)
	for _, want := range []string{"kind: Deployment\n", "replicas: 5\n", "kind: NetworkPolicy\n", "image: registry.example.net/meshctl:1.0\n"} {
		if !strings.Contains(m.YAML, want) {
			t.Errorf("no %q in\n%s", want, m.YAML)
		}
	}
	if len(f.asked) != asked {
		t.Error("the cluster was asked")
	}
	f.answer = kube.Answer{Changes: []kube.Change{{Object: "Deployment/meshctl-entry", Action: kube.Create}}}
	p := must(r.entryPlan(r.ctx(), req))(t)
	a := f.asked[len(f.asked)-1]
	if p.Release != 1 || len(p.Changes) != 1 || a.Kind != kube.AskPlan || !slices.ContainsFunc(a.Objects, func(o kube.Object) bool { return o.Kind() == "Deployment" }) {
		t.Errorf("the plan is %+v, asked with %d objects", p, len(a.Objects))
	}
	f.answer = kube.Answer{Failure: kube.Unreachable}
	_, err := r.entryPlan(r.ctx(), req)
	refused(t, err, mesh.ErrUnavailable, "unreachable")
	if v := must(r.kubeGet(r.ctx(), admin.Ref{Ref: "north"}))(t); v.Wanted.Number != 0 {
		t.Errorf("release %d was made", v.Wanted.Number)
	}
}

func TestRightsAreShownForANamespace(t *testing.T) {
	r, _ := newKubeRig(t)
	m := must(r.kubeRBAC(r.ctx(), admin.KubeRBACRequest{Namespace: "edge"}))(t)
	if !strings.Contains(m.YAML, "namespace: edge\n") || strings.Contains(m.YAML, "*") {
		t.Errorf("the manifest is\n%s", m.YAML)
	}
	_, err := r.kubeRBAC(r.ctx(), admin.KubeRBACRequest{Namespace: "kube-system"})
	refused(t, err, mesh.ErrInvalid, "kube-system")
}

func TestRollingUpdatesArePausedAndUndone(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	do := func(action string, to int64) (admin.KubeView, error) {
		return r.entryRollout(r.ctx(), admin.EntryRolloutRequest{Ref: "north", Action: action, To: to})
	}
	_, err := do("pause", 0)
	refused(t, err, mesh.ErrConflict, "entry deploy")
	r.deploy("north", 0, layer(2))
	_, err = do("undo", 0)
	refused(t, err, mesh.ErrConflict, "no earlier")
	_, err = do("stop", 0)
	refused(t, err, mesh.ErrInvalid, "pause, resume or undo")
	r.deploy("north", 1, layer(3))
	if v = must(do("pause", 0))(t); !v.Paused {
		t.Error("it is not paused")
	}
	_, err = do("undo", 7)
	refused(t, err, mesh.ErrNotFound, "there are: 1")
	v = must(do("undo", 0))(t)
	if v.Paused || v.Wanted.Number != 3 || v.Wanted.Layer.Replicas != 2 || v.Wanted.Why != "undo of 2, as 1" {
		t.Errorf("paused %v, release %+v", v.Paused, v.Wanted)
	}
	if v = must(do("undo", 2))(t); v.Wanted.Number != 4 || v.Wanted.Layer.Replicas != 3 {
		t.Errorf("release %+v", v.Wanted)
	}
	if v = must(do("resume", 0))(t); v.Paused {
		t.Error("it is paused")
	}
}

func TestWhatFailedIsNotWhatAnUndoGoesBackTo(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	r.deploy("north", 0, layer(1))
	r.deploy("north", 1, layer(2))
	r.deploy("north", 2, layer(3))
	r.deploy("north", 3, layer(4))
	undo := func() mesh.EntryRelease {
		return must(r.entryRollout(r.ctx(), admin.EntryRolloutRequest{Ref: "north", Action: "undo"}))(t).Wanted
	}
	// Release 4 failed, and 2 was put back: that is where everybody is already.
	r.state(v.ID, mesh.KubeState{Ran: 2, Parked: 4})
	if got := undo(); got.Number != 5 || got.Layer.Replicas != 2 {
		t.Errorf("release %+v", got)
	}
	// 4 is the last that differs, but it failed.
	if got := undo(); got.Number != 6 || got.Layer.Replicas != 3 {
		t.Errorf("release %+v", got)
	}
}

// Release 2 was replaced before it ran.
func TestAnUndoGoesBackToWhatRan(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	r.deploy("north", 0, layer(1))
	r.deploy("north", 1, layer(2))
	r.deploy("north", 2, layer(3))
	r.state(v.ID, mesh.KubeState{Ran: 1})
	got := must(r.entryRollout(r.ctx(), admin.EntryRolloutRequest{Ref: "north", Action: "undo"}))(t).Wanted
	if got.Number != 4 || got.Layer.Replicas != 1 || got.Why != "undo of 3, as 1" {
		t.Errorf("release %+v", got)
	}
}

func TestEntriesAreTakenAwayOnce(t *testing.T) {
	r, _ := newKubeRig(t)
	r.cluster("north")
	_, err := r.entryUninstall(r.ctx(), admin.Ref{Ref: "north"})
	refused(t, err, mesh.ErrConflict, "no entries are deployed")
	r.deploy("north", 0, layer(2))
	for range 2 {
		v := must(r.entryUninstall(r.ctx(), admin.Ref{Ref: "north"}))(t)
		if !v.Removing || v.Wanted.Number != 1 {
			t.Errorf("removing %v, release %d", v.Removing, v.Wanted.Number)
		}
		if c := must(r.Store.Kubes.Get(r.ctx(), v.ID))(t).Value; c.Removals != 1 {
			t.Errorf("it was taken away %d times", c.Removals)
		}
	}
	_, err = r.entryRollout(r.ctx(), admin.EntryRolloutRequest{Ref: "north", Action: "resume"})
	refused(t, err, mesh.ErrConflict, "taken away")
}

// A release that failed does not come again by a change of the number of pods; by
// another image, or any other change, people go on from it.
func TestAfterAReleaseThatFailedTheNumberIsThatOfWhatRuns(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	bad := layer(2)
	bad.Image, bad.LogLevel = "registry.example.net/meshctl:broken", "debug"
	r.deploy("north", 0, layer(2))
	r.deploy("north", 1, bad)
	r.state(v.ID, mesh.KubeState{Ran: 1, Parked: 2})
	change := func(why string, base int64, l mesh.EntryLayer) admin.KubeView {
		return must(r.entryDeploy(r.ctx(), admin.EntryDeployRequest{Ref: "north", Layer: l, Base: base, Why: why}))(t)
	}
	bad.Replicas = 5
	v = change("scale", 2, bad)
	if v.Wanted.Number != 3 || v.Wanted.Layer.Image != layer(0).Image || v.Wanted.Layer.Replicas != 5 || v.Wanted.Pods != 1 || v.Wanted.Layer.LogLevel != "info" {
		t.Errorf("it is to be %+v", v.Wanted)
	}
	if v.Note != "release 2 failed and is not tried again; this changes the number of release 1" {
		t.Errorf("it says %q", v.Note)
	}
	if len(v.Earlier) != 2 || v.Earlier[0].Failed || !v.Earlier[1].Failed {
		t.Errorf("what failed is not known any more: %+v", v.Earlier)
	}
	r.state(v.ID, mesh.KubeState{Ran: 1})
	if v = change("scale", 3, layer(6)); v.Note != "" || v.Wanted.Layer.Replicas != 6 {
		t.Errorf("it says %q of %+v", v.Note, v.Wanted)
	}
	r.state(v.ID, mesh.KubeState{Ran: 1, Parked: 4})
	bad.Image = "registry.example.net/meshctl:mended"
	if v = change("image", 4, bad); v.Note != "" || v.Wanted.Layer.LogLevel != "debug" || v.Wanted.Layer.Image != bad.Image {
		t.Errorf("it is to be %+v", v.Wanted)
	}
}
