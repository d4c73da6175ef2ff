package adminsvc

import (
	"context"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Kubes is what the handlers need of the clusters that entries run in.
type Kubes interface {
	// Render makes the objects of a release, by what holds now: the addresses of
	// servers and cores, and the releases before it.
	Render(ctx context.Context, c mesh.KubeCluster, r mesh.EntryRelease) ([]kube.Object, error)
	// AskKube asks a cluster through the child of this server, whoever leads. That
	// the cluster gave no good answer is no error.
	AskKube(ctx context.Context, a kube.Ask) (kube.Answer, error)
}
