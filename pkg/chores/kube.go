package chores

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube"
)

// Kube is the server's side of entries in Kubernetes clusters: what is to be so
// there, and how it is. The child speaks with the clusters. It has the credential
// of each in memory, and no other.
//
// Any method may be called from any goroutine.
type Kube interface {
	// Lead is called whenever this server takes the office, and returns when ctx
	// ends, which is when the office is given back.
	Lead(ctx context.Context) error
	// Order is what is to be so, one for each cluster; one that is not named is left
	// alone. It waits for nothing. It is asked every two seconds, and after
	// Foreman.Wake.
	Order() []kube.Work
	// Ended takes note of how a cluster is. It waits for nothing.
	Ended(kube.Observation)
}

// kubeOrder is what the child is to keep. What cannot be sent is left out.
func (f *Foreman) kubeOrder() *controlpb.KubeOrder {
	var out controlpb.KubeOrder
	for _, w := range f.Kube.Order() {
		m, err := workProto(w)
		if err != nil {
			f.Log.Error("cluster not ordered", "object", "kube/"+string(w.Cluster), "err", err)
			continue
		}
		out.Clusters = append(out.Clusters, m)
	}
	if len(out.GetClusters()) == 0 {
		return nil
	}
	return &out
}

func apiProto(a kube.API) *controlpb.KubeAPI {
	return &controlpb.KubeAPI{
		Server: a.Server, Ca: a.CA, ServerName: a.ServerName, Auth: string(a.Auth), Credential: a.Credential.Reveal(), Namespace: a.Namespace,
	}
}

func workProto(w kube.Work) (*controlpb.KubeWork, error) {
	objects, err := objectsProto(w.Objects)
	return &controlpb.KubeWork{
		Cluster: string(w.Cluster), Api: apiProto(w.API), Mesh: string(w.Mesh), Objects: objects, Release: w.Release, Mark: w.Mark,
		Epoch: &controlpb.BackupEpoch{Mesh: w.Epoch.Mesh, Leader: w.Epoch.Leader},
	}, err
}

func objectsProto(in []kube.Object) ([][]byte, error) {
	out := make([][]byte, len(in))
	for i, o := range in {
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("chores: write an object for Kubernetes: %w", err)
		}
		out[i] = text
	}
	return out, nil
}

// ordersKube returns what the child is told about clusters, nil when there are
// none.
func (f *Foreman) ordersKube() *controlpb.KubeOrder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.jobs.kube
}

// hideKube takes the credentials of all clusters out of a text.
func hideKube(o *controlpb.KubeOrder, s string) string {
	for _, w := range o.GetClusters() {
		s = conceal(s, w.GetApi().GetCredential())
	}
	return s
}

// leadKube keeps the server's side at work while this server leads.
func (f *Foreman) leadKube(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.Kube.Lead(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("work for clusters ended", "err", err, "delay", againTime)
		}
		wait(ctx, againTime)
	}
}
