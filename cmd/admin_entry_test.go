package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// layerOf is what the flags in words make of was.
func layerOf(t *testing.T, was mesh.EntryLayer, words ...string) (mesh.EntryLayer, error) {
	t.Helper()
	var f layerFlags
	c := &cobra.Command{Use: "deploy"}
	f.flags(c)
	c.SetIn(strings.NewReader("image: example.net/e:3\nreplicas: 7\n"))
	if err := c.ParseFlags(words); err != nil {
		t.Fatal(err)
	}
	return f.onto(t.Context(), &adminSession{cmd: c}, was)
}

func TestWhatNoFlagNamesStays(t *testing.T) {
	was := mesh.EntryLayer{Image: "example.net/e:1", Replicas: 3, Service: mesh.EntryService{Class: "a", Annotations: map[string]string{"k": "v"}}}
	got, err := layerOf(t, was)
	if err != nil || !reflect.DeepEqual(got, was) {
		t.Errorf("without flags it is %+v, %v", got, err)
	}
	got, err = layerOf(t, was, "--image", "example.net/e:2", "--annotation", "x=1,2", "--annotation", "y=a=b", "--toleration", "edge=yes:NoExecute", "--toleration", "any",
		"--proxy", "10.0.0.0/8,192.0.2.1", "--drain-limit", "90s", "--lb-class", "", "--node-selector", "zone=a")
	want := `{Image:example.net/e:2 PullSecret: Kind: Replicas:3 Autoscale:{Min:0 Max:0 CPU:0} ` +
		`Service:{Type: Class: Annotations:map[x:1,2 y:a=b] Port:0 NodePort:0 Proxies:[10.0.0.0/8 192.0.2.1/32] Public:[] Name:} `
	text := strings.Contains(fmt.Sprintf("%+v", got), want)
	if err != nil || !text || got.DrainLimit != mesh.Duration(90*time.Second) || got.NodeSelector["zone"] != "a" ||
		!reflect.DeepEqual(got.Tolerations, []mesh.EntryToleration{{Key: "edge", Value: "yes", Effect: "NoExecute"}, {Key: "any"}}) {
		t.Errorf("it is %s, %v", fmt.Sprintf("%+v", got), err)
	}
	got, err = layerOf(t, got, "--annotation", "", "--proxy", "", "--toleration", "", "--node-selector", "")
	if err != nil || len(got.Service.Annotations)+len(got.Service.Proxies)+len(got.Tolerations)+len(got.NodeSelector) != 0 {
		t.Errorf("emptied it is %s, %v", fmt.Sprintf("%+v", got), err)
	}
}

func TestTheNumberOfPodsIsHandedOver(t *testing.T) {
	was := mesh.EntryLayer{Image: "example.net/e:1", Replicas: 3}
	scaled, err := layerOf(t, was, "--autoscale", "2-10@60%")
	if err != nil || scaled.Replicas != 0 || scaled.Autoscale != (mesh.EntryAutoscale{Min: 2, Max: 10, CPU: 60}) {
		t.Errorf("it is %+v, %v", scaled, err)
	}
	if _, err := layerOf(t, scaled, "--autoscale", "off"); err == nil || !strings.Contains(err.Error(), "how many pods") {
		t.Errorf("off without a number: %v", err)
	}
	daemons, err := layerOf(t, scaled, "--autoscale", "off", "--kind", "daemonset")
	if err = cmp.Or(err, daemons.Validate()); err != nil || daemons.Kind != mesh.EntryDaemonSet {
		t.Errorf("one pod on each node instead: %+v, %v", daemons, err)
	}
	if got, err := layerOf(t, scaled, "--autoscale", "off", "--replicas", "4"); err != nil || got.Replicas != 4 || got.Autoscale != (mesh.EntryAutoscale{}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	if got, err := layerOf(t, was, "--kind", "daemonset"); err != nil || got.Replicas != 0 {
		t.Errorf("it is %+v, %v", got, err)
	}
}

func TestAFileIsAllOfALayer(t *testing.T) {
	got, err := layerOf(t, mesh.EntryLayer{Image: "example.net/e:1", LogLevel: "debug"}, "-f", "-", "--replicas", "8")
	if err != nil || !reflect.DeepEqual(got, mesh.EntryLayer{Image: "example.net/e:3", Replicas: 8}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "layer.yaml")
	for text, says := range map[string]string{"image: x\nreplica: 3\n": "replica", strings.Repeat("#", maxLayerFile+1): "longer than", "- a\n": "cannot unmarshal"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := layerOf(t, mesh.EntryLayer{}, "-f", file); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.10q: %v, want that it says %q", text, err, says)
		}
	}
}

func TestFlagsOfALayerThatAreNone(t *testing.T) {
	for _, words := range [][]string{
		{"--autoscale", "5"}, {"--autoscale", "2-x"}, {"--autoscale", "2-5@x%"}, {"--annotation", "x"}, {"--annotation", "=x"}, {"--annotation", "a=1", "--annotation", "a=2"},
		{"--toleration", "=v"}, {"--toleration", ":NoExecute"}, {"--proxy", "example.net"}, {"--proxy", "fe80::1%eth0"}, {"--node-selector", "a"},
		{"--replicas", "0"}, {"--unavailable", "0"}, {"--port", "0"}, {"--autoscale", "2-5@0%"},
	} {
		if _, err := layerOf(t, mesh.EntryLayer{}, words...); err == nil {
			t.Errorf("%q was taken", words)
		}
	}
}

func FuzzParseAutoscale(f *testing.F) {
	for _, s := range []string{"2-10", "2-10@70%", "off", "", "1-", "-1-2", "2-3@", "9-9@-1%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAutoscale(s)
		if err != nil && a != (mesh.EntryAutoscale{}) {
			t.Errorf("%q gives %+v beside %v", s, a, err)
		}
	})
}

func view(st *mesh.KubeState) admin.KubeView {
	return admin.KubeView{Name: "north", Wanted: mesh.EntryRelease{Number: 2}, Earlier: []mesh.EntryRelease{{Number: 1}}, State: st}
}

func TestStepsOfARollout(t *testing.T) {
	roll := func(p mesh.KubePhase) mesh.KubeRollout {
		return mesh.KubeRollout{Release: 2, Phase: p, Desired: 3, Updated: 1, Ready: 1, Old: 2}
	}
	removing, paused := view(&mesh.KubeState{}), view(&mesh.KubeState{Rollout: roll(mesh.KubePausing)})
	removing.Removing, paused.Paused = true, true
	newer := view(nil)
	newer.Wanted.Number = 3
	for _, c := range []struct {
		name string
		v    admin.KubeView
		done bool
		says string
		err  string
	}{
		{"nobody looked", view(nil), false, "nobody has looked", ""},
		{"still the old one", view(&mesh.KubeState{Rollout: mesh.KubeRollout{Release: 1, Phase: mesh.KubeComplete}}), false, "not begun", ""},
		{"rolling", view(&mesh.KubeState{Rollout: roll(mesh.KubeRolling)}), false, "rolling: 1 of 3 updated, 1 ready, 2 old", ""},
		{"rolling, and a pod does not start", view(&mesh.KubeState{Rollout: roll(mesh.KubeRolling), Pods: []mesh.KubePod{{Name: "p1", Ready: true}, {Name: "p2", Reason: "ImagePullBackOff"}}}), false, "; pod p2: ImagePullBackOff", ""},
		{"a conflict", view(&mesh.KubeState{Rollout: roll(mesh.KubeRolling), Conflicts: []mesh.KubeConflict{{Object: "Service/meshctl-entry", Field: ".spec.type", Manager: "helm"}}}), false, "Service/meshctl-entry: field .spec.type is kept otherwise by helm, and meshctl does not force it", ""},
		{"the API is away", view(&mesh.KubeState{Contact: "unreachable", Detail: "refused"}), false, "unreachable: refused", ""},
		{"paused", paused, true, "rollout resume --cluster north", ""},
		{"complete", view(&mesh.KubeState{Rollout: roll(mesh.KubeComplete)}), true, "complete", ""},
		{"failed and parked", view(&mesh.KubeState{Parked: 2, Ran: 1, ParkedWhy: "pod p2: CrashLoopBackOff\nboom\n"}), false, "", "release 2 failed: pod p2: CrashLoopBackOff\n  boom"},
		{"what ran does not any more", view(&mesh.KubeState{Ran: 2, Rollout: roll(mesh.KubeFailed), Problems: []string{"no node has room"}}), false, "", "no node has room"},
		{"no room", view(&mesh.KubeState{Ran: 1, Rollout: roll(mesh.KubeLacking), Lacking: "3 of 5 pods are ready, and no more come"}), false, "", "release 2: 3 of 5 pods are ready"},
		{"being taken away", removing, false, "", "taken away"},
		{"somebody else's", newer, false, "", "release 3 meanwhile"},
	} {
		got := rolloutStep(c.v, 2)
		if got.done != c.done || !strings.Contains(got.line, c.says) || (c.err == "") != (got.err == nil) || got.err != nil && !strings.Contains(got.err.Error(), c.err) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestWaitingHasAnEnd(t *testing.T) {
	c := &cobra.Command{}
	var out bytes.Buffer
	c.SetOut(&out)
	w := waitFlags{most: time.Millisecond}
	_, err := w.until(t.Context(), &adminSession{cmd: c}, view(nil), func(admin.KubeView) step { return step{line: "half way"} })
	if !errors.Is(err, mesh.ErrUnavailable) || !strings.Contains(err.Error(), "not done within 1ms; at last: half way") {
		t.Errorf("it ends with %v (%s)", err, mesh.Hint(err))
	}
	if !strings.Contains(mesh.Hint(err), "rollout status --cluster north") {
		t.Errorf("it leads to %q", mesh.Hint(err))
	}
	if out.String() != "half way\n" {
		t.Errorf("it said %q", out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.most = time.Hour
	if _, err = w.until(ctx, &adminSession{cmd: c}, view(nil), func(admin.KubeView) step { return step{} }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted, it ends with %v", err)
	}
	var said strings.Builder
	if report(&said, interrupted(ctx, err)); said.String() != "error: interrupted\nhint: it goes on without you; look on: meshctl admin entry rollout status --cluster north\n" {
		t.Errorf("interrupted, it says %q", said.String())
	}
}

// What does not pass by itself ends the wait, what may pass does not.
func TestAReleaseThatIsHeldBack(t *testing.T) {
	busy := mesh.KubeRollout{Release: 2, Phase: mesh.KubeRolling, Desired: 3, Updated: 1, Ready: 1, Old: 2}
	idle := mesh.KubeRollout{Release: 2, Phase: mesh.KubeRolling, Desired: 3, Updated: 3, Ready: 3}
	service := []mesh.KubeConflict{{Object: "Service/meshctl-entry", Field: ".spec.type", Manager: "helm"}}
	number := []mesh.KubeConflict{{Object: "Deployment/meshctl-entry", Field: ".spec.replicas", Manager: "kubectl"}}
	port := []string{`Service/meshctl-entry: Service "meshctl-entry" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range`}
	for _, c := range []struct {
		name string
		st   mesh.KubeState
		says []string // none: it is waited for
		hint string
	}{
		{"nothing is wrong", mesh.KubeState{Rollout: busy}, nil, ""},
		{"a service that others keep, while pods change", mesh.KubeState{Rollout: busy, Conflicts: service}, nil, ""},
		{"and when they have changed", mesh.KubeState{Rollout: idle, Conflicts: service}, []string{"release 2 is held back by others", ".spec.type is kept otherwise by helm, and meshctl does not"}, "--force-conflicts"},
		{"the pods' own controller", mesh.KubeState{Rollout: busy, Conflicts: number}, []string{".spec.replicas", "by kubectl, and meshctl", "all changes to this object are held back"}, "docs/runbook/kubernetes.md"},
		{"a node port", mesh.KubeState{Rollout: busy, Problems: port}, []string{"the cluster refuses Service/meshctl-entry", "not in the valid range"}, "--node-port 0"},
		{"a label", mesh.KubeState{Rollout: busy, Problems: []string{`Deployment/meshctl-entry: Deployment.apps "meshctl-entry" is invalid: spec: x`}}, []string{"refuses Deployment"}, "rollout undo --cluster north"},
		{"a quota", mesh.KubeState{Rollout: busy, Problems: []string{"Service/meshctl-entry: exceeded quota"}}, nil, ""},
	} {
		got := rolloutStep(view(&c.st), 2)
		if got.done || got.err != nil || (got.held == nil) != (c.says == nil) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(got.held.Error(), want) {
				t.Errorf("%s: it says %v", c.name, got.held)
			}
		}
		if !strings.Contains(mesh.Hint(got.held), c.hint) {
			t.Errorf("%s: the hint is %q", c.name, mesh.Hint(got.held))
		}
	}
}

func TestOutcomesOfReleases(t *testing.T) {
	failed := view(&mesh.KubeState{Ran: 1, Parked: 2, Rollout: mesh.KubeRollout{Release: 1, Phase: mesh.KubeComplete}})
	before := view(&mesh.KubeState{Ran: 2, Rollout: mesh.KubeRollout{Release: 2, Phase: mesh.KubeComplete}})
	before.Earlier = []mesh.EntryRelease{{Number: 1, Failed: true}}
	rolling := view(&mesh.KubeState{Ran: 1, Rollout: mesh.KubeRollout{Release: 2, Phase: mesh.KubeRolling}})
	ran := view(&mesh.KubeState{Ran: 2, Rollout: mesh.KubeRollout{Release: 2, Phase: mesh.KubeComplete}})
	for _, c := range []struct {
		name string
		v    admin.KubeView
		want [2]string
	}{
		{"nobody looked", view(nil), [2]string{"", ""}},
		{"put back", failed, [2]string{"runs", "failed"}},
		{"failed before", before, [2]string{"failed", "runs"}},
		{"on the way", rolling, [2]string{"ran last", "rolling"}},
		{"there", ran, [2]string{"replaced", "runs"}},
		{"not begun", view(&mesh.KubeState{Ran: 1}), [2]string{"ran last", "not begun"}},
	} {
		got := [2]string{outcomeOf(c.v, c.v.Earlier[0]), outcomeOf(c.v, c.v.Wanted)}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhenAClusterWasLookedAt(t *testing.T) {
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	seen := func(number int64, st mesh.KubeState) admin.KubeView {
		v := view(&st)
		v.Wanted.Number = number
		return v
	}
	five := now.Add(-5 * time.Minute)
	for _, c := range []struct {
		v          admin.KubeView
		list, show string
	}{
		{seen(0, mesh.KubeState{}), "not looked at yet", "not looked at yet; meshctl admin kube check north"},
		{seen(0, mesh.KubeState{Seen: five, Version: "v1.34.4"}), "ok 5m ago", "ok, v1.34.4, looked at 2027-01-31 11:55:00 UTC (5m ago)"},
		{seen(1, mesh.KubeState{Seen: five}), "ok", "ok, looked at 2027-01-31 11:55:00 UTC (5m ago)"},
		{seen(1, mesh.KubeState{Contact: "unreachable", Detail: "refused", Since: now.Add(-time.Minute), Seen: five}), "unreachable for 1m",
			"unreachable: refused, since 2027-01-31 11:59:00 UTC (1m ago); it answered well at 2027-01-31 11:55:00 UTC (5m ago)"},
	} {
		if got := contactOf(c.v, now); got != c.list {
			t.Errorf("a list has %q, want %q", got, c.list)
		}
		if got := apiText(c.v, now); got != c.show {
			t.Errorf("alone it is %q, want %q", got, c.show)
		}
	}
}

func TestStepsOfTakingAway(t *testing.T) {
	going := view(&mesh.KubeState{Pods: []mesh.KubePod{{Name: "p1"}}})
	going.Removing = true
	gone := view(nil)
	gone.Wanted.Number = 0
	if got := goneNow(going); got.done || got.line != "1 pod left" {
		t.Errorf("half way: %+v", got)
	}
	if got := goneNow(gone); !got.done || got.err != nil {
		t.Errorf("at the end: %+v", got)
	}
	if got := goneNow(view(nil)); got.err == nil {
		t.Errorf("deployed again: %+v", got)
	}
}
