package control_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen but may take its time on a busy machine.
const patience = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// mgmt is a management server as far as nodes see it.
type mgmt struct {
	controlpb.UnimplementedEnrollmentServer
	controlpb.UnimplementedRenewalServer
	controlpb.UnimplementedNodeControlServer

	addr    string
	enroll  func(*controlpb.EnrollRequest) (*controlpb.EnrollResponse, error)
	renew   func(identity.Peer, *controlpb.RenewRequest) (*controlpb.RenewResponse, error)
	connect func(controlpb.NodeControl_ConnectServer) error
	server  *grpc.Server
}

func (m *mgmt) Enroll(_ context.Context, r *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	return m.enroll(r)
}

func (m *mgmt) Renew(ctx context.Context, r *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
	return m.renew(peerOf(ctx), r)
}

func (m *mgmt) Connect(s controlpb.NodeControl_ConnectServer) error { return m.connect(s) }

// serve starts m with a certificate of its own and stops it with the test.
func serve(t *testing.T, m *mgmt, node *identity.Node, revs *identity.Revocations) *mgmt {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := node.ServerTLS(identity.Policy{
		Revocations: revs, Accept: identity.MgmtPort().Accept, Anonymous: true,
		Grace: func() time.Duration { return time.Hour },
	}, identity.ProtoGRPC)
	m.addr = ln.Addr().String()
	m.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(cfg)))
	controlpb.RegisterEnrollmentServer(m.server, m)
	controlpb.RegisterRenewalServer(m.server, m)
	controlpb.RegisterNodeControlServer(m.server, m)
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.server.Serve(ln) })
	t.Cleanup(func() { m.server.Stop(); wg.Wait() })
	return m
}

func folder(t *testing.T) *identity.Folder {
	t.Helper()
	f, err := identity.OpenFolder(t.TempDir() + "/identity")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func state(t *testing.T, addrs ...string) *control.State {
	t.Helper()
	s, err := control.OpenState(t.TempDir(), logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetAddresses(addrs); err != nil {
		t.Fatal(err)
	}
	return s
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string { return freeport.Addr(t) }

func peerOf(ctx context.Context) identity.Peer {
	info, ok := peer.FromContext(ctx)
	if !ok {
		return identity.Peer{}
	}
	tlsInfo, ok := info.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return identity.Peer{}
	}
	p, err := identity.RenewingPeerOf(tlsInfo.State)
	if err != nil {
		return identity.Peer{}
	}
	return p
}

func token(m *identitytest.Mesh, addrs ...string) mesh.JoinToken {
	return mesh.JoinToken{Addresses: addrs, RootHash: m.RootHash(), ID: mesh.NewTokenID(), Secret: mesh.NewSecret(32)}
}
