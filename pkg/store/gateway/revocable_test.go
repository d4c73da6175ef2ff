package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

// Servers refuse calls over a connection whose certificate has ended: one that
// was renewed is asked over new connections before that, and no lookup fails.
func TestConnectionsEndBeforeTheCertificateTheyWereOpenedWith(t *testing.T) {
	t.Parallel()
	var late, renewed atomic.Int64
	ca := identitytest.New(t)
	m := startMgmtOf(t, ca, func(s *gateway.Server) {
		s.PeerID = func(ctx context.Context) string {
			switch shown := shownEnd(ctx); {
			case time.Now().After(shown):
				late.Add(1)
			case time.Until(shown) > time.Hour:
				renewed.Add(1)
			}
			return peerID(ctx)
		}
	})
	m.putRoute(t, name, mesh.NewCoreID())
	id, reg := ca.Identity(mesh.RoleEntry), prometheus.NewRegistry()
	node := ca.NodeAs(t, id, identitytest.Life(5*time.Second))
	end := node.Leaf().NotAfter
	c := m.client(t, func(cfg *gateway.Config) { cfg.Node, cfg.Metrics = node, reg })
	lookup(t, c, name)
	node.Replace(ca.NodeAs(t, id))
	eventually(t, "the certificate ends that the connection was opened with", func() bool {
		lookup(t, c, name)
		return time.Now().After(end.Add(300 * time.Millisecond))
	})
	if late.Load() > 0 || renewed.Load() == 0 {
		t.Errorf("%d calls over a connection whose certificate had ended, %d with the renewed one", late.Load(), renewed.Load())
	}
	if n := lookupsOf(t, reg, "stale") + lookupsOf(t, reg, "unavailable"); n > 0 {
		t.Errorf("%v lookups had no fresh answer", n)
	}
}

// shownEnd is the end of the certificate that the caller's connection was opened with.
func shownEnd(ctx context.Context) time.Time {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return time.Time{}
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return time.Time{}
	}
	return info.State.PeerCertificates[0].NotAfter
}
