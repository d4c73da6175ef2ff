package mgmt

import (
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// connect opens one phone-home, waits for the welcome or the refusal, and hangs up.
func connect(t *testing.T, cc *grpc.ClientConn, boot int64) error {
	t.Helper()
	st, err := controlpb.NewNodeControlClient(cc).Connect(t.Context())
	if err != nil {
		return rpcstatus.From(err)
	}
	hello := &controlpb.Hello{Instance: "x", Version: "test", Boot: boot, ClockUnixNanos: time.Now().UnixNano()}
	// A stream that was refused meanwhile says so to the reader.
	_ = st.Send(&controlpb.NodeMessage{Body: &controlpb.NodeMessage_Hello{Hello: hello}})
	if _, err := st.Recv(); err != nil {
		return rpcstatus.From(err)
	}
	return st.CloseSend()
}

// A node that opens one stream after the other is made to wait; others are not.
func TestStreamsOfOneNodeAreBounded(t *testing.T) {
	w := getWorld(t)
	restless, other := as(t, w.addr.Mesh, w.node(t, mesh.RoleEntry)), as(t, w.addr.Mesh, w.node(t, mesh.RoleCore))
	opened, began := 0, time.Now()
	for boot := range int64(2 * streamBurst) {
		switch err := connect(t, restless, boot); mesh.Kind(err) {
		case nil:
			opened++
		case mesh.ErrUnavailable:
		default:
			t.Fatal(err)
		}
	}
	if most := streamBurst + 1 + int(time.Since(began)/streamEvery); opened < streamBurst || opened > most {
		t.Errorf("%d of %d streams were opened, want %d to %d", opened, 2*streamBurst, streamBurst, most)
	}
	if err := connect(t, other, 1); err != nil {
		t.Errorf("another node: %v", err)
	}
}
