package mgmt

import (
	"context"
	"crypto/tls"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/mgmt/kubes"
	"github.com/meshctl/meshctl/pkg/store"
)

// keepKubes gives the clusters that entries run in what they need of this server.
func (r *runtime) keepKubes() {
	r.kubes = &kubes.Service{
		Store: r.store, Mesh: r.keys.Mesh, Server: r.keys.Server, Root: mesh.RootText(r.rootHash()), Epoch: r.nodes.Epoch,
		Subscription: r.subscriptionShown, Wake: r.foreman.Wake, Log: r.log.With("unit", "kubes"),
	}
	r.foreman.Kube = r.kubes
}

// subscriptionShown is by what an address of entries is known to lead into the mesh.
func (r *runtime) subscriptionShown() (mesh.ServerName, *tls.Certificate) {
	c, _ := r.config.Get(store.ConfigKey)
	return c.Subscription.Name, r.certs.Subscription()
}

func (r *runtime) runKubes(ctx context.Context) error { return r.kubes.Run(ctx) }

// askedKubes is what administrators' calls need of clusters.
type askedKubes struct{ r *runtime }

var _ adminsvc.Kubes = askedKubes{}

func (k askedKubes) Render(ctx context.Context, c mesh.KubeCluster, rel mesh.EntryRelease) ([]kube.Object, error) {
	return k.r.kubes.Render(ctx, c, rel)
}

func (k askedKubes) AskKube(ctx context.Context, a kube.Ask) (kube.Answer, error) {
	return k.r.foreman.AskKube(ctx, a)
}
