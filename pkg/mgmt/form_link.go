package mgmt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// linkTime bounds one question to another server.
const linkTime = 10 * time.Second

// link is a connection to another server's Cluster service.
type link struct {
	controlpb.ClusterClient
	cc    *grpc.ClientConn
	conn  *tls.Conn
	state tls.ConnectionState
}

// dialOpen connects to a server that has no mesh yet: who it is shows by its
// proof of the secret alone.
func dialOpen(ctx context.Context, address string) (*link, error) {
	return dialLink(ctx, address, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{identity.ProtoGRPC},
		InsecureSkipVerify: true, // the proof of the secret over this connection is the trust
	})
}

// dialPinned connects to a server of the mesh that was promised.
func dialPinned(ctx context.Context, address string, root [32]byte) (*link, error) {
	return dialLink(ctx, address, identity.PinnedTLS(root, identity.ProtoGRPC))
}

// dialMember connects to a server of the mesh as node.
func dialMember(ctx context.Context, address string, node *identity.Node) (*link, error) {
	return dialLink(ctx, address, node.ClientTLS(mesh.Identity{Mesh: node.Identity().Mesh, Role: mesh.RoleMgmt}, nil, identity.ProtoGRPC))
}

func dialLink(ctx context.Context, address string, config *tls.Config) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, mesh.ErrUnavailable)
	}
	conn := c.(*tls.Conn) // what tls.Dialer says it returns
	var used atomic.Bool
	cc, err := grpc.NewClient("passthrough:///mgmt", grpc.WithTransportCredentials(insecure.NewCredentials()), // conn is TLS already
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, fmt.Errorf("mgmt: connection lost: %w", mesh.ErrUnavailable)
			}
			return conn, nil
		}))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("mgmt: dial %s: %w", address, err)
	}
	return &link{ClusterClient: controlpb.NewClusterClient(cc), cc: cc, conn: conn, state: conn.ConnectionState()}, nil
}

// close ends the connection; nothing follows that could be lost.
func (l *link) close() {
	l.cc.Close()
	l.conn.Close()
}

func (l *link) promise(ctx context.Context, secret mesh.Secret, req *controlpb.PromiseRequest) (*controlpb.PromiseResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	p, err := newProver(secret, &l.state)
	if err != nil {
		return nil, err
	}
	req.Proof = p.proof(proofAsk)
	resp, err := l.Promise(ctx, req)
	if err != nil {
		return nil, rpcstatus.From(err)
	}
	return resp, p.check(proofAnswer, resp.GetProof())
}

func (l *link) join(ctx context.Context, secret mesh.Secret, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
	p, err := newProver(secret, &l.state)
	if err != nil {
		return nil, err
	}
	req.Proof = p.proof(proofAsk)
	resp, err := l.joinKnown(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp, p.check(proofAnswer, resp.GetProof())
}

func (l *link) joinKnown(ctx context.Context, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	resp, err := l.Join(ctx, req)
	return resp, rpcstatus.From(err)
}

// ask asks one server for its promise.
func (x *former) ask(ctx context.Context, m gossip.Seen) (*controlpb.Joiner, error) {
	l, err := dialOpen(ctx, m.Address)
	if err != nil {
		return nil, err
	}
	defer l.close()
	p := x.promised()
	resp, err := l.promise(ctx, x.secret, &controlpb.PromiseRequest{
		Founder: string(p.Founder), FounderName: p.Name, MeshId: string(p.Mesh), RootHash: p.RootHash, Addresses: p.Addresses,
		ClockUnixNanos: x.now().UnixNano(),
	})
	if err != nil {
		return nil, err
	}
	if r := resp.GetRefusal(); r != "" {
		return nil, errors.New(r)
	}
	if j := resp.GetJoiner(); j.GetServer() != string(m.Server) || j.GetName() != m.Name {
		return nil, fmt.Errorf("at %s answers %q, %s", m.Address, mesh.Quotable(j.GetName()), mesh.Quotable(j.GetServer()))
	}
	_, _, err = serverOf(resp.GetJoiner(), x.now())
	return resp.GetJoiner(), err
}

func (l *link) moveLeader(ctx context.Context, member string) error {
	_, err := l.MoveLeader(ctx, &controlpb.MoveLeaderRequest{Member: member})
	return rpcstatus.From(err)
}
