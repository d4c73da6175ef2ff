//go:build kube

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
)

// TestUninstalled takes the entries away in mid-rollout and then the cluster, as an
// operator does: nothing of ours is left in it, what is others' stays, and the
// entries that its pods were are told from those that live. After that it can be
// added and deployed to as before.
func TestUninstalled(t *testing.T) {
	e := theEntries(t)
	theirs := e.strangers(t)
	if out, err := e.tryAdmin(t.Context(), "kube", "remove", clusterName, "--yes"); err == nil || !strings.Contains(out, "entry uninstall") {
		t.Errorf("a cluster with entries was removed, or it was not said what to do first: %v\n%s", err, out)
	}
	t.Log(e.admin(t, "entry", "deploy", "--max-connections", "9020", "--no-wait"))
	e.wait(t, "the rolling update is under way", func() error {
		if n := len(e.pods(t)); n < 3 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	if len(e.ours(t)) == 0 {
		t.Fatal("no object of ours was found where all are")
	}
	begin := time.Now()
	t.Log(e.admin(t, "entry", "uninstall", clusterName, "--yes", "--wait", "3m"))
	e.wait(t, "nothing of ours is left", func() error {
		if left := e.ours(t); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	record(t, "entries taken away in mid-rollout", "-", time.Since(begin), "nothing was left, pods that drained included")
	for _, path := range theirs {
		if _, err := e.Kube.admin.get(t.Context(), path); err != nil {
			t.Errorf("what is others' has gone: %v", err)
		}
	}
	e.wait(t, "no entry is a pod any more", func() error { return e.noPods(t.Context()) })
	t.Log(e.admin(t, "kube", "remove", clusterName, "--yes"))
	if out := e.admin(t, "kube", "list"); strings.Contains(out, clusterName) {
		t.Errorf("the cluster is still there:\n%s", out)
	}
	e.addCluster(t, e.Kube, clusterName)
	e.restore(t)
	if err := e.devices[0].try(t.Context(), e.clients()); err != nil {
		t.Error(err)
	}
}

// strangers puts objects of others beside ours, some that look like them, and
// returns where they are.
func (e *Entries) strangers(t testing.TB) (paths []string) {
	t.Helper()
	for _, o := range []object{
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "theirs", "namespace": entryNS,
			"labels": map[string]any{kube.LabelName: kube.Name, kube.LabelPartOf: "meshctl"}}},
		{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "theirs", "namespace": entryNS},
			"spec": object{"ports": []object{{"port": 80}}}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "theirs", "namespace": entryNS}},
	} {
		if err := e.Kube.admin.apply(t.Context(), o, "somebody-else", ""); err != nil {
			t.Fatal(err)
		}
		path := pathOf(o)
		t.Cleanup(func() {
			if err := e.Kube.admin.delete(context.WithoutCancel(t.Context()), path); err != nil {
				t.Error(err)
			}
		})
		paths = append(paths, path)
	}
	return append(paths, "/api/v1/namespaces/"+entryNS, "/api/v1/namespaces/"+entryNS+"/serviceaccounts/"+kube.Account)
}

// ours are the paths of all objects in the cluster, of whatever kind, that have the
// label of a mesh.
func (e *Entries) ours(t testing.TB) (out []string) {
	t.Helper()
	groups, err := e.Kube.admin.get(t.Context(), "/apis")
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{"/api/v1"}
	for _, g := range groups.list("groups") {
		versions = append(versions, "/apis/"+g.text("preferredVersion", "groupVersion"))
	}
	for _, version := range versions {
		kinds, err := e.Kube.admin.get(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds.list("resources") {
			if name := kind.text("name"); slices.Contains(kind.words("verbs"), "list") && !slices.Contains(warned, name) {
				out = append(out, e.labelled(t, version+"/"+name)...)
			}
		}
	}
	return out
}

// warned are the kinds that the API server warns of, since they are old.
var warned = []string{"componentstatuses", "endpoints"}

func (e *Entries) labelled(t testing.TB, kind string) (out []string) {
	t.Helper()
	data, err := e.Kube.admin.get(t.Context(), kind+"?labelSelector="+kube.LabelMesh)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range data.list("items") {
		out = append(out, kind+" "+o.text("metadata", "namespace")+"/"+o.text("metadata", "name"))
	}
	return out
}

// noPods wants that every entry that was a pod has gone, and that what it could show
// others ends within a day.
func (e *Entries) noPods(ctx context.Context) error {
	all, err := call(ctx, e.Mesh, admin.EntryList, admin.Page{})
	if err != nil {
		return err
	}
	for _, entry := range all.Items {
		switch {
		case entry.Pod.Cluster == "":
		case entry.Pod.Gone.IsZero():
			return fmt.Errorf("%s has not gone", entry.Name)
		case entry.Status != nil && entry.Status.Connected:
			return fmt.Errorf("%s is connected", entry.Name)
		case time.Until(entry.CertEnds) > 24*time.Hour:
			return fmt.Errorf("%s has a certificate until %v", entry.Name, entry.CertEnds)
		}
	}
	return nil
}
