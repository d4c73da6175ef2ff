package gateway_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
	"github.com/meshctl/meshctl/pkg/store/gateway"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// Members of a cluster leave connections between them open for some seconds,
// when they are closed. Nothing else here speaks HTTP/1.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"))
}

// startEtcd runs one member and returns a client that may do everything.
func startEtcd(t testing.TB) *clientv3.Client {
	t.Helper()
	return etcdAt(t, storetest.Etcd(t))
}

func etcdAt(t testing.TB, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// mgmt is a management server as far as an entry's lookups can see.
type mgmt struct {
	etcd     *clientv3.Client
	ca       *identitytest.Mesh
	server   *gateway.Server
	node     *identity.Node
	addr     string
	stop     func()
	noLeader atomic.Bool
	behind   atomic.Bool  // transactions read an old state, unless a quorum is asked
	watches  atomic.Int64 // streams that are open
}

func startMgmt(t testing.TB, change ...func(*gateway.Server)) *mgmt {
	t.Helper()
	return startMgmtOf(t, identitytest.New(t), change...)
}

// startMgmtOf starts another server of a mesh, with a store of its own.
func startMgmtOf(t testing.TB, ca *identitytest.Mesh, change ...func(*gateway.Server)) *mgmt {
	t.Helper()
	return startMgmtOn(t, ca, startEtcd(t), change...)
}

// startMgmtOn starts another server on the same store.
func startMgmtOn(t testing.TB, ca *identitytest.Mesh, etcd *clientv3.Client, change ...func(*gateway.Server)) *mgmt {
	t.Helper()
	m := &mgmt{etcd: etcd, ca: ca}
	m.server = &gateway.Server{
		Client:    m.etcd,
		PeerID:    peerID,
		HasLeader: func() bool { return !m.noLeader.Load() },
	}
	for _, f := range change {
		f(m.server)
	}
	m.start(t, freeport.Addr(t))
	return m
}

// start serves on addr; after stop it can be called again with the same one.
func (m *mgmt) start(t testing.TB, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	m.node = m.ca.Node(t, mesh.RoleMgmt)
	policy := identity.Policy{Revocations: m.ca.Revocations(t), Accept: identity.MgmtPort().Accept}
	g := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(m.node.ServerTLS(policy, identity.ProtoGRPC))),
		grpc.UnknownServiceHandler(gateway.RefuseUnknown),
		grpc.UnaryInterceptor(m.lag),
		grpc.StreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			m.watches.Add(1)
			defer m.watches.Add(-1)
			return next(srv, st)
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: gateway.KeepAlive / 2, PermitWithoutStream: true}),
	)
	m.server.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(ln) }()
	var stopped atomic.Bool
	m.addr = ln.Addr().String()
	m.stop = func() {
		if stopped.CompareAndSwap(false, true) {
			g.Stop()
			<-done
		}
	}
	t.Cleanup(m.stop)
}

// lag makes answers what a member that is behind would say.
func (m *mgmt) lag(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	txn, ok := req.(*pb.TxnRequest)
	if err != nil || !ok || !m.behind.Load() || !txn.Success[0].GetRequestRange().Serializable {
		return resp, err
	}
	old := resp.(*pb.TxnResponse)
	old.Header.Revision = 1
	for _, r := range old.Responses {
		r.GetResponseRange().Kvs = nil
	}
	return old, nil
}

func peerID(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return ""
	}
	who, err := identity.PeerOf(info.State)
	if err != nil {
		return ""
	}
	return who.ID
}

func (m *mgmt) entryTLS(t testing.TB) *tls.Config {
	return m.ca.Node(t, mesh.RoleEntry).ClientTLS(mesh.Identity{Mesh: m.ca.ID, Role: mesh.RoleMgmt}, m.ca.Revocations(t), identity.ProtoGRPC)
}

// etcdClient is etcd's own client with an entry's credential.
func (m *mgmt) etcdClient(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + m.addr}, TLS: m.entryTLS(t), Logger: zap.NewNop(), MaxUnaryRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// perTry is long, since the machine may be busy.
const perTry = 2 * time.Second

// client is the gateway's client, running.
func (m *mgmt) client(t testing.TB, change ...func(*gateway.Config)) *gateway.Client {
	t.Helper()
	cfg := gateway.Config{
		Addresses:   func() []string { return []string{m.addr} },
		Node:        m.ca.Node(t, mesh.RoleEntry),
		Revocations: m.ca.Revocations(t),
		PerTry:      perTry,
		StaleFor:    func() time.Duration { return time.Hour },
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := gateway.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func (m *mgmt) put(t testing.TB, key string, v any) {
	t.Helper()
	raw, err := codec.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.etcd.Put(t.Context(), key, string(raw)); err != nil {
		t.Fatal(err)
	}
}

func (m *mgmt) putRoute(t testing.TB, name mesh.ServerName, cores ...mesh.CoreID) mesh.Route {
	t.Helper()
	r := mesh.Route{Name: name, Device: mesh.NewDeviceID()}
	for _, c := range cores {
		r.Hops = append(r.Hops, mesh.Hop{Kind: mesh.HopCore, ID: string(c)})
	}
	m.put(t, gateway.RouteKey(name), r)
	return r
}

func (m *mgmt) putTarget(t testing.TB, id mesh.CoreID, state mesh.CoreState) {
	t.Helper()
	m.put(t, gateway.TargetKey(string(id)), mesh.TargetOf(m.ca.ID, mesh.Core{ID: id, State: state}, "meshctl-relay/1"))
}

// eventually waits for a condition that concurrent work brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}
