//go:build kube

package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestPodsServe shows that pods that nobody gave a secret are entries of the mesh,
// and carry traffic. None has a token for the API of the cluster (K-07).
func TestPodsServe(t *testing.T) {
	e := theEntries(t)
	v, err := e.view(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	serving := 0 // those that have gone are known until their certificates end
	for _, p := range v.State.Pods {
		if entry, ok := v.Entries[p.UID]; ok && entry.Status != nil && entry.Status.Connected {
			serving++
		}
	}
	if serving != 2 || len(v.State.Pods) != 2 {
		t.Errorf("%d pods are %d entries; want 2: %+v", len(v.State.Pods), serving, v)
	}
	for _, p := range e.pods(t) { // with what the API server adds to those that do not refuse it
		for _, volume := range p.list("spec", "volumes") {
			if name := volume.text("name"); strings.HasPrefix(name, "kube-api-access") {
				t.Errorf("%s has a token for the API: %s", p.text("metadata", "name"), name)
			}
		}
	}
	l := e.begin(t, steady(e.clients()))
	<-time.After(5 * time.Second)
	n := l.finish(t)
	n.clean(t)
	record(t, "nothing", n.String(), 0, "the end")
	t.Log(e.admin(t, "entry", "status"))
}

// underLoad does something to the entries while clients are served, and wants none
// to notice (K-01).
func (e *Entries) underLoad(t *testing.T, event string, run func()) {
	t.Helper()
	before := e.uids(t)
	l := e.begin(t, steady(e.clients()))
	<-time.After(2 * time.Second)
	begin := time.Now()
	run()
	took := time.Since(begin)
	e.complete(t) // the old ones have drained
	<-time.After(time.Second)
	n := l.finish(t)
	n.clean(t)
	for _, uid := range e.uids(t) {
		if slices.Contains(before, uid) {
			t.Errorf("pod %s was there before, too", uid)
		}
	}
	t.Log(e.service().counts())
	record(t, event, n.String(), took, "every pod is a new one")
}

func (e *Entries) uids(t testing.TB) (out []string) {
	t.Helper()
	for _, p := range e.pods(t) {
		out = append(out, p.text("metadata", "uid"))
	}
	return out
}

func TestConfigurationRolls(t *testing.T) {
	e := theEntries(t)
	e.underLoad(t, "configuration changed", func() {
		t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9000"))
	})
}

func TestImageRolls(t *testing.T) {
	e := theEntries(t)
	e.underLoad(t, "image changed", func() { t.Log(e.admin(t, "entry", "image", newImage)) })
	e.underLoad(t, "image changed back by undo", func() { t.Log(e.admin(t, "entry", "rollout", "undo")) })
}

// TestLeaderKilledInMidRollout has another server go on with what one began.
func TestLeaderKilledInMidRollout(t *testing.T) {
	e := theEntries(t)
	leader := e.leader(t)
	e.underLoad(t, "mgmt leader killed in mid-rollout", func() {
		t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9001", "--no-wait"))
		e.wait(t, "the rolling update is under way", func() error {
			if n := len(e.pods(t)); n < 3 {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
		if err := leader.role.Kill(); err != nil {
			t.Fatal(err)
		}
		e.complete(t)
	})
	leader.begin(t)
	e.wait(t, "the server is back", func() error { return leader.ready(t.Context()) })
}

// TestScaleRestartsNobody adds a pod and takes it away again.
func TestScaleRestartsNobody(t *testing.T) {
	e := theEntries(t)
	before := e.uids(t)
	begin := time.Now()
	t.Log(e.admin(t, "entry", "scale", "3"))
	record(t, "scaled from 2 to 3", "-", time.Since(begin), "management says so")
	after := e.uids(t)
	for _, uid := range before {
		if !slices.Contains(after, uid) {
			t.Errorf("pod %s was replaced", uid)
		}
	}
	if len(after) != 3 {
		t.Errorf("%d pods; want 3", len(after))
	}
	t.Log(e.admin(t, "entry", "scale", "2"))
}

// TestFailedRolloutIsPutBack tries a release that cannot start and one that never
// is ready: clients notice neither, and management says which pod and why.
func TestFailedRolloutIsPutBack(t *testing.T) {
	e := theEntries(t)
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"an image that does not exist", []string{"image", "meshctl.test/missing:1"}, []string{"meshctl-entry-", "Image"}},
		{"an image that ends at once", []string{"image", failImage}, []string{"meshctl-entry-", "this image ends at once"}},
		{"readiness never true", []string{"image", unreadyImage}, []string{"meshctl-entry-", "not ready"}},
		{"no worker has room", []string{"deploy", "--cpu", "100"}, []string{"meshctl-entry-", "Insufficient cpu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := e.uids(t)
			l := e.begin(t, load{held: 50, perSecond: 20, life: 20 * time.Second, entry: e.clients()})
			begin := time.Now()
			out, err := e.tryAdmin(t.Context(), append([]string{"entry"}, c.args...)...)
			took := time.Since(begin)
			if err == nil {
				t.Fatalf("it succeeded:\n%s", out)
			}
			t.Log(err)
			for _, word := range c.says {
				if !strings.Contains(out, word) {
					t.Errorf("%q is not said", word)
				}
			}
			e.wait(t, "what ran before is back", func() error { return e.back(t) })
			n := l.finish(t)
			n.clean(t)
			for _, uid := range e.uids(t) {
				if !slices.Contains(before, uid) {
					t.Errorf("pod %s is a new one", uid)
				}
			}
			record(t, "release that fails: "+c.name, n.String(), took, "it was said and put back")
			t.Log(e.admin(t, "entry", "rollout", "undo"))
		})
	}
}

// back wants the pods of what ran before and no others.
func (e *Entries) back(t testing.TB) error {
	v, err := call(t.Context(), e.Mesh, admin.KubeGet, admin.Ref{Ref: clusterName})
	if err != nil {
		return err
	}
	if v.State.Parked != v.Wanted.Number || v.State.ParkedWhy == "" {
		return fmt.Errorf("release %d is not parked: %+v", v.Wanted.Number, v.State.Rollout)
	}
	pods := e.pods(t)
	if len(pods) != 2 {
		return fmt.Errorf("%d pods", len(pods))
	}
	for _, p := range pods {
		if status, why := p.condition("Ready"); status != "True" {
			return errors.New(p.text("metadata", "name") + ": " + why)
		}
	}
	return nil
}

// TestPauseStopsHalfWay keeps pods of both kinds until it is resumed.
func TestPauseStopsHalfWay(t *testing.T) {
	e := theEntries(t)
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9002", "--no-wait"))
	t.Log(e.admin(t, "entry", "rollout", "pause"))
	e.wait(t, "it is paused", func() error {
		v, err := e.view(t.Context())
		if err == nil && (v.State == nil || v.State.Rollout.Phase != mesh.KubePausing) {
			err = fmt.Errorf("%+v", v.State)
		}
		return err
	})
	if paused, _ := e.object(t, "Deployment").at("spec", "paused").(bool); !paused {
		t.Error("the Deployment is not paused")
	}
	t.Log(e.admin(t, "entry", "rollout", "resume"))
	e.complete(t)
}
