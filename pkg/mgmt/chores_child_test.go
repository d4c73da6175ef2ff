package mgmt

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// breakDown is a child in which something goes wrong as soon as it has orders:
// what, is in the URL that it is to ping. Without one it lives, and no cluster that
// it is asked about answers.
func breakDown() {
	conn, err := chores.Inherited()
	if err != nil {
		panic(err)
	}
	cc, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
	if err != nil {
		panic(err)
	}
	ctx, server := context.Background(), controlpb.NewChoresClient(cc)
	orders, err := server.Orders(ctx, &controlpb.OrdersRequest{})
	if err != nil {
		panic(err)
	}
	var follows atomic.Uint64
	go func() {
		for range time.Tick(time.Second) {
			if _, err := server.Report(ctx, &controlpb.ReportRequest{Revision: follows.Load()}); err != nil {
				os.Exit(0) // the server is gone
			}
		}
	}()
	for {
		o, err := orders.Recv()
		follows.Store(o.GetRevision())
		for _, ask := range o.GetAsks() {
			if _, err := server.Answer(ctx, &controlpb.KubeAnswer{Id: ask.GetId(), Json: []byte(`{"failure":"unreachable"}`)}); err != nil {
				panic(err)
			}
		}
		switch url := o.GetPing().GetUrl(); {
		case err != nil:
			os.Exit(0) // the server is gone
		case strings.HasSuffix(url, "/panic"):
			panic(fmt.Sprintf("asking for %s", url))
		case strings.HasSuffix(url, "/hog"):
			var all [][]byte
			for n := 1; len(all) < n; n++ {
				b := make([]byte, 1<<20)
				for i := 0; i < len(b); i += 4096 { // each page
					b[i] = 1
				}
				all = append(all, b)
			}
		}
	}
}

// TestWhatBreaksInTheChildIsTheChild goes on changing state and issuing
// certificates while the child breaks down again and again.
func TestWhatBreaksInTheChildIsTheChild(t *testing.T) {
	for _, c := range []struct{ what, want string }{
		{"panic", "panic: asking for [redacted]"},
		{"hog", outOfMemory},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			url := mesh.Secret("https://watch.s3cret.example/" + c.what)
			logs := new(logBuffer)
			r, err := start(testConfig(filepath.Join(t.TempDir(), "data")), logs, givePassphrase, func(s *Server) {
				s.PingURL = func(context.Context) (mesh.Secret, error) { return url, nil }
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			}()
			var aux *admin.AuxStatus
			eventually(t, "the child broke down twice", func() bool {
				r.node(t, mesh.RoleCore) // fails the test if it cannot be made
				aux = call(t, admin.ServerStatusGet, r.local(t), admin.None{}).Aux
				return aux != nil && aux.Restarts >= 2 && aux.Ping.Here && aux.Ping.Leader == r.keys.Server
			})
			if !strings.Contains(aux.LastEnd, c.want) {
				t.Errorf("%+v, want %q", aux, c.want)
			}
			if strings.Contains(logs.String(), "s3cret") {
				t.Errorf("the URL is in the log:\n%s", logs)
			}
		})
	}
}
