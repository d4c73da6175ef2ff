//go:build faults

package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// changeLimit is when a change of a route is to be seen, after etcd is back too.
const changeLimit = 5 * time.Second

// D-01. With a thousand routes all etcd goes, comes back and is compacted: no
// connection fails, and a change is soon seen.
func TestManyRoutesWithoutEtcd(t *testing.T) {
	l := theLab(t)
	const routes = 1000
	known := l.newClients(t, 40)
	begin := time.Now()
	l.addDevices(t, routes-must(t, l, admin.StatusGet, admin.None{}).Routes)
	l.WaitFor(t, patience, "there are that many routes", func() error {
		if n := must(t, l, admin.StatusGet, admin.None{}).Routes; n < routes {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	t.Logf("%d routes were there after %v", routes, time.Since(begin))
	if _, err := l.serve(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	changed := known[0]
	tr := l.Start(t, Traffic{Clients: known[1:], PerSecond: 50})
	tr.Go(time.Second)
	tr.Fault()
	for _, h := range l.Mgmt {
		h.Kill(t)
	}
	tr.Go(time.Minute)
	for _, h := range l.Mgmt {
		h.Start(t)
	}
	l.WaitFor(t, patience, "etcd is back", func() error { return l.serversWell(t.Context()) })
	seen := l.changeSeen(t, changed)
	l.compact(t)
	compacted := l.changeSeen(t, changed)
	tr.Go(2 * time.Second)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	for _, took := range []time.Duration{seen, compacted} {
		if took > changeLimit {
			t.Errorf("a change was seen after %v; promised are %v", took, changeLimit)
		}
	}
	l.Record(t, fmt.Sprintf("%d routes, all etcd down for a minute, then compacted", routes), m, max(seen, compacted), "until a changed route was in force at both entries")
}

// addDevices adds n devices, many at once: each waits until its cores know it.
func (l *Lab) addDevices(t *testing.T, n int) {
	t.Helper()
	const atOnce = 25
	var wg sync.WaitGroup
	for range atOnce {
		first := l.devices + 1
		l.devices += (n + atOnce - 1) / atOnce
		last := l.devices
		wg.Go(func() {
			for i := first; i <= last; i++ {
				req := admin.DeviceAddRequest{Member: memberName, Name: fmt.Sprintf("device-%d", i), Cell: cellName}
				if _, err := call(t.Context(), l, admin.DeviceAdd, req); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// changeSeen suspends the client's device and resumes it, and returns how long
// the slower of both took to be in force at every entry.
func (l *Lab) changeSeen(t *testing.T, c *Client) (slower time.Duration) {
	t.Helper()
	for _, state := range []mesh.DeviceState{mesh.DeviceSuspended, mesh.DeviceActive} {
		begin := time.Now()
		must(t, l, admin.DeviceSet, admin.DeviceSetRequest{Ref: string(c.Device.ID), State: &state})
		for _, e := range l.Entries {
			l.WaitFor(t, patience, string(state)+" at "+e.Name, func() error {
				if err := c.Try(t.Context(), e); (err == nil) != (state == mesh.DeviceActive) {
					return fmt.Errorf("a new connection: %w", errors.Join(err, errors.New("not as the change says")))
				}
				return nil
			})
		}
		slower = max(slower, time.Since(begin))
	}
	return slower
}

// compact forgets everything of etcd's history but what is.
func (l *Lab) compact(t *testing.T) {
	t.Helper()
	h := l.Mgmt[0]
	text, err := os.ReadFile(filepath.Join(h.Data(), "etcd-ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ca.ParseEtcdCA(mesh.Secret(text))
	if err != nil {
		t.Fatal(err)
	}
	cert := etcdCert(t, authority, ca.EtcdClient, embedded.ClientName, "127.0.0.1")
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://127.0.0.1:2379"}, Logger: zap.NewNop(),
		TLS:         &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: authority.Pool()},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.Dial(ctx, "127.0.0.1:2379") })},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), lab.SetupTime)
	defer cancel()
	now, err := c.Get(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}
