package mgmt

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// child is a client where the child process is.
func (r *running) child(t *testing.T) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			r.admitAux(ours) // not before it is used: the server waits a while only
			return theirs, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func TestTheChildMayReportAndIsTold(t *testing.T) {
	w := getWorld(t)
	c := controlpb.NewChoresClient(w.child(t))
	if _, err := c.Report(t.Context(), &controlpb.ReportRequest{}); err != nil {
		t.Error(err)
	}
	orders, err := c.Orders(t.Context(), &controlpb.OrdersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := orders.Recv(); err != nil || o.GetPing() != nil {
		t.Errorf("%v, %v; want no job, since none is configured", o, err)
	}
}

func TestAURLThatCannotBePingedIsAFaultOfConfiguration(t *testing.T) {
	s := &Server{Config: testConfig(filepath.Join(t.TempDir(), "data")), PingURL: func(context.Context) (mesh.Secret, error) {
		return "ftp://s3cret.example/", nil
	}}
	err := s.Run(t.Context(), func() {})
	if mesh.Kind(err) != mesh.ErrInvalid || !strings.Contains(err.Error(), "ping.url-file") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

func TestSettingsOfTheChildAndItsJobs(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Ping.Interval = 0 }, "ping.interval"},
		{func(c *Config) { c.Ping.Interval = 1 << 60 }, "ping.interval"},
		{func(c *Config) { c.Aux.Memory = 1 << 20 }, "aux.memory"},
		{func(c *Config) { c.Aux.Memory = 1 << 40 }, "aux.memory"},
		{func(*Config) {}, ""},
	} {
		conf := testConfig("/data")
		c.change(&conf)
		err := conf.Validate()
		if got := err == nil; got != (c.want == "") || !got && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
