package mgmt

import (
	"context"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/certs"
	"github.com/meshctl/meshctl/pkg/store"
)

// runCerts keeps the certificates that clients see.
func (r *runtime) runCerts(ctx context.Context, ready func()) error {
	r.certs = &certs.Service{
		Store: r.store, Server: r.keys.Server,
		Settings: func() mesh.SubscriptionSettings {
			c, _ := r.config.Get(store.ConfigKey)
			return c.Subscription
		},
		Files:   certs.Files{Cert: r.srv.Config.Subscription.CertFile, Key: r.srv.Config.Subscription.KeyFile},
		Deliver: r.deliverCell,
		Wake:    r.foreman.Wake,
		Log:     r.log.With("unit", "certs"),
	}
	r.foreman.Certs = r.certs
	return r.certs.Run(ctx, ready)
}

// deliverCell hands a core that is connected here its certificate. Before the
// first stream there is none.
func (r *runtime) deliverCell(core mesh.CoreID, chain [][]byte) {
	if r.serving.Load() {
		r.nodes.DeliverCell(core, chain)
	}
}
