package mgmt

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A node that loses its stream backs off. One that opens streams faster than
// this only makes others read of it, in the log and in the status of nodes.
const (
	streamEvery = 2 * time.Second
	streamBurst = 30
)

// nodeControl is the NodeControl service, with the streams of one node bounded.
type nodeControl struct {
	controlpb.NodeControlServer

	often *ratelimit.Limiter[string] // by node
	now   func() time.Time
}

// Connect implements the service.
func (c *nodeControl) Connect(st grpc.BidiStreamingServer[controlpb.NodeMessage, controlpb.MgmtMessage]) error {
	p, _ := identity.PeerFromContext(st.Context())
	if !c.often.Allow(p.Node(), c.now()) {
		return rpcstatus.To(fmt.Errorf("mgmt: connect %s: it did so too often: %w", p.Node(), mesh.ErrUnavailable))
	}
	return c.NodeControlServer.Connect(st)
}
