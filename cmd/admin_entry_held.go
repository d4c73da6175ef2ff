package cmd

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// held is why a release goes no further by itself, as an error for whoever waits: the
// cluster refuses an object, or somebody else keeps a field and nothing else is going
// on. It is nil for what may pass.
func held(v admin.KubeView) error {
	st := v.State
	if p := refusal(*st); p != "" {
		return mesh.WithHint(fmt.Errorf("cluster %s: release %d: the cluster refuses %s", clean(v.Name), v.Wanted.Number, clean(p)), refusalHint(v, p))
	}
	if len(st.Conflicts) == 0 || !nothingElse(*st) {
		return nil
	}
	texts := make([]string, len(st.Conflicts))
	for i, x := range st.Conflicts {
		texts[i] = conflictText(x)
	}
	return mesh.WithHint(fmt.Errorf("cluster %s: release %d is held back by others: %s", clean(v.Name), v.Wanted.Number, strings.Join(texts, "\n  ")), conflictHint(v))
}

// nothingElse says whether no pod changes any more: all are as they should be, or what
// keeps them is held back itself.
func nothingElse(st mesh.KubeState) bool {
	for _, x := range st.Conflicts {
		if kind, _, _ := strings.Cut(x.Object, "/"); kind == "Deployment" || kind == "DaemonSet" {
			return true
		}
	}
	r := st.Rollout
	return r.Old == 0 && r.Updated >= r.Desired && r.Ready >= r.Desired
}

// refusal is a problem that the API has with what an object says: trying again does not
// help. What may pass (a quota, a webhook that is off) is none.
func refusal(st mesh.KubeState) string {
	for _, p := range st.Problems {
		if strings.Contains(p, " is invalid: ") {
			return p
		}
	}
	return ""
}

func refusalHint(v admin.KubeView, problem string) string {
	if strings.Contains(problem, "nodePort") {
		return fmt.Sprintf("let it choose the port: meshctl admin entry deploy --cluster %s --node-port 0; or name a free one of its range, which is %s unless its API server says otherwise (--service-node-port-range)", v.Name, usualNodePorts)
	}
	return fmt.Sprintf("deploy again with what it takes, or go back: meshctl admin entry rollout undo --cluster %s", v.Name)
}

func conflictHint(v admin.KubeView) string {
	return fmt.Sprintf("decide who keeps it (docs/runbook/kubernetes.md, kube-conflict): have the other let go, set the same here, or take it over once: "+
		"meshctl admin entry deploy --cluster %s --dry-run | kubectl apply --server-side --force-conflicts --field-manager %s -f -", v.Name, kube.FieldManager)
}

// usualNodePorts are those that a cluster hands out when nobody changed that.
const usualNodePorts = "30000-32767"

// unusualPort warns of a node port that most clusters refuse, when it is new.
func unusualPort(s *adminSession, d deployable) error {
	p, was := d.layer.Service.NodePort, d.cluster.Wanted.Layer.Service.NodePort
	if p == 0 || p == was || p >= 30000 && p <= 32767 {
		return nil
	}
	_, err := fmt.Fprintf(s.err(), "warning: node port %d: most clusters have %s alone, and refuse others\n", p, usualNodePorts)
	return err
}
