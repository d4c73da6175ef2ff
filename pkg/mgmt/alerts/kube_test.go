package alerts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestWhatClustersTell(t *testing.T) {
	w := newWorld(t)
	id := mesh.NewKubeID()
	object := "kube/" + string(id)
	now := time.Now().UTC()
	w.change(func(tx *store.Tx) error {
		return errors.Join(
			store.Create(tx, w.st.Kubes, id, mesh.KubeCluster{ID: id, Name: "paris", Ends: now.Add(24 * time.Hour)}),
			store.Create(tx, w.st.KubeStates, id, mesh.KubeState{
				Cluster: id, Contact: "denied", Detail: "pods is forbidden", Since: now, Parked: 4, ParkedWhy: "pod a: ImagePullBackOff\nits log",
				Conflicts: []mesh.KubeConflict{{Object: "Service/meshctl-entry", Field: "spec.type", Manager: "kubectl"}},
				Addresses: []mesh.KubeAddress{{Host: "192.0.2.1", Port: 443, Tried: now}, {Host: "192.0.2.2", Port: 443, Tried: now, Up: true}, {Host: "192.0.2.3", Port: 443}},
				Policy:    mesh.PolicyOpen, Lacking: "3 of 5 pods are ready, and no more come: pod b: Unschedulable",
			}))
	})
	w.run()
	w.becomes(alert.KubeUnreachable, object, mesh.AlertPending)
	w.pass(5 * time.Minute)
	causes := map[string]string{
		alert.KubeUnreachable: "denied: pods is forbidden", alert.EntriesFailed: "release 4: pod a: ImagePullBackOff",
		alert.EntriesLacking: "3 of 5 pods are ready",
		alert.KubeConflict:   "spec.type of Service/meshctl-entry is kept by kubectl", alert.EntryAddress: "192.0.2.1:443",
		alert.PolicyOpen: "forbids", alert.KubeCredential: "it ends at ",
	}
	for rule, cause := range causes {
		w.becomes(rule, object, mesh.AlertFiring)
		if a := w.alert(rule, object); !strings.Contains(a.Cause, cause) || strings.Contains(a.Cause, "\n") || a.Advice == "" {
			t.Errorf("%s: %+v", rule, a)
		}
	}
	for _, n := range w.notices() {
		if _, chat := n.Telegram(); chat && n.Params["name"] != "paris" {
			t.Errorf("people are told %q of the cluster", n.Params["name"])
		}
	}
	for _, typ := range []mesh.EventType{mesh.EventKubeUnreachable, mesh.EventKubeConflict, mesh.EventAddressDown, mesh.EventPolicyNotEnforced} {
		if n := w.events(typ); n != 1 {
			t.Errorf("%d events %s", n, typ)
		}
	}

	w.change(func(tx *store.Tx) error {
		return errors.Join(
			store.Update(tx, w.st.Kubes, id, func(c *mesh.KubeCluster) error { c.Ends = time.Time{}; return nil }),
			store.Update(tx, w.st.KubeStates, id, func(st *mesh.KubeState) error {
				*st = mesh.KubeState{Cluster: id, Since: now, Policy: mesh.PolicyEnforced}
				return nil
			}))
	})
	for rule := range causes {
		eventually(t, rule+" clears", func() bool {
			a := w.alert(rule, object)
			return !a.Clearing.IsZero() || a.State == mesh.AlertResolved
		})
	}
	w.pass(5 * time.Minute)
	for rule := range causes {
		w.becomes(rule, object, mesh.AlertResolved)
	}
	for _, typ := range []mesh.EventType{mesh.EventKubeReachable, mesh.EventKubeSettled, mesh.EventAddressUp, mesh.EventPolicyEnforced} {
		if n := w.events(typ); n != 1 {
			t.Errorf("%d events %s", n, typ)
		}
	}
}
