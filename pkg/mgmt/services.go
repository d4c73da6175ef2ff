package mgmt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/mgmt/nodes"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

const (
	// maxMessage is the largest message that a known peer may send.
	maxMessage = 1 << 20
	// maxHeaders is how much of HTTP/2 headers one call may carry.
	maxHeaders = 16 << 10
	// maxStreams is how many calls one connection may have under way.
	maxStreams = 256
	// farewell bounds how long calls under way may take once the server stops.
	farewell = 3 * time.Second
)

// runGRPC serves what the ports hand over. It stops after the nodes have been
// told goodbye, and gives calls under way a moment.
func (r *runtime) runGRPC(ctx context.Context, ready func()) error {
	r.nodes = &nodes.Service{
		Store: r.store, Mesh: r.keys.Mesh, Server: r.keys.Server, Node: r.self.node,
		Revocations: r.revs, SignCell: ca.SignCellLeaf, PublicCell: r.certs.CellRequested, Log: r.log, Superseded: r.hearEpoch, Intermediates: r.intermediates,
	}
	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.keepBackups()
	r.keepAlerts()
	r.keepBot()
	r.keepKubes()
	r.grpc = r.newGRPC(func(f func()) func() bool { return context.AfterFunc(stopping, f) })
	r.register(r.grpc)
	done := make(chan error, 1)
	go func() { done <- r.grpc.Serve(r.conveyor) }()
	ready()
	select {
	case err := <-done:
		return fmt.Errorf("mgmt: serve calls: %w", err)
	case <-ctx.Done():
	}
	stop()
	hard := time.AfterFunc(farewell, r.grpc.Stop)
	defer hard.Stop()
	r.grpc.GracefulStop()
	if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("mgmt: serve calls: %w", err)
	}
	return nil
}

func (r *runtime) newGRPC(onStop func(func()) func() bool) *grpc.Server {
	g := &guard{
		access:  r.access,
		revoked: r.revs.Check, collecting: r.nodes.Collecting,
		admin: func(ctx context.Context, id mesh.AdminID) (mesh.Administrator, error) {
			a, err := r.store.Admins.Get(ctx, id)
			return a.Value, err
		},
		person:  r.bots.Person,
		renew:   r.nodes.IssuerRemoved,
		metrics: r.metrics,
		onStop:  onStop,
		log:     r.log,
		now:     r.now,
	}
	return grpc.NewServer(
		grpc.Creds(handshaken{}),
		grpc.InTapHandle(g.early),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
		// What does not exist is denied like everything that is not in the table.
		grpc.UnknownServiceHandler(gateway.RefuseUnknown),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
}

// register adds every service; each method of theirs is in the access table.
func (r *runtime) register(g *grpc.Server) {
	controlpb.RegisterEnrollmentServer(g, &enrollment{
		store: r.store, ca: r.authority, mesh: r.keys.Mesh, metrics: r.metrics, log: r.log, now: r.now,
		suspect: newSuspicion(r.store, r.srv.Config.Rates.TokenFailures, r.log, r.now),
		often:   ratelimit.New[mesh.TokenID](rate.Every(againEvery), againBurst),
		pods: &pods{
			store: r.store, ca: r.authority, mesh: r.keys.Mesh, log: r.log, now: r.now,
			suspect: newSuspicion(r.store, r.srv.Config.Rates.TokenFailures, r.log, r.now),
			often:   ratelimit.New[string](0, renewalBurst),
			limits:  newPodLimits(),
		},
	})
	controlpb.RegisterRenewalServer(g, &renewal{
		store: r.store, ca: r.authority, log: r.log, now: r.now,
		often: ratelimit.New[string](0, renewalBurst),
	})
	controlpb.RegisterClusterServer(g, clusterService{cluster: r.cluster})
	controlpb.RegisterChoresServer(g, &r.foreman)
	controlpb.RegisterNodeControlServer(g, &nodeControl{
		NodeControlServer: r.nodes, often: ratelimit.New[string](rate.Every(streamEvery), streamBurst), now: r.now,
	})
	gw := &gateway.Server{Client: r.store.Client(), PeerID: peerID, HasLeader: r.etcd.member.HasLeader, Epoch: r.nodes.Epoch, Log: r.log}
	gw.Register(g)
	r.admin = adminsvc.Service{
		Store: r.store, CA: r.authority, ServerStatus: r.status, Explain: r.subs.Explain, SubCertificate: r.certs.Subscription, NewCellCA: ca.NewCellCA, WaitServed: r.nodes.WaitServed, Servers: serversOf{r.cluster}, Kubes: askedKubes{r},
		Mesh: r.keys.Mesh, Server: r.keys.Server, RootHash: r.rootHash(), Version: r.srv.Version, Log: r.log,
	}
	admin.Serve(g, append(r.admin.Bindings(), r.bots.Bindings()...))
}

func peerID(ctx context.Context) string {
	p, _ := identity.PeerFromContext(ctx)
	return p.ID
}

// runNodes keeps what is known of nodes. When it ends it has told those that
// are connected goodbye.
func (r *runtime) runNodes(ctx context.Context, ready func()) error { return r.nodes.Run(ctx, ready) }

// runPorts accepts at every door but the socket.
func (r *runtime) runPorts(ctx context.Context, ready func()) error {
	gate := newGate(r.srv.Config.Rates, r.metrics.turned)
	serve := func(d door, ln net.Listener) func(context.Context) error {
		p := &port{door: d, gate: gate, revs: r.revs, out: r.conveyor, metrics: r.metrics, log: r.log}
		alpn := []string{identity.ProtoGRPC}
		if d == doorMesh {
			alpn, p.relay = append(alpn, identity.ProtoRelay), r.takeRelay
		}
		p.tls = r.self.node.ServerTLS(r.policy(d), alpn...)
		return func(ctx context.Context) error { return p.serve(ctx, ln) }
	}
	doors := []func(context.Context) error{serve(doorMesh, r.ports.mesh)}
	if ln := r.ports.gateway; ln != nil {
		doors = append(doors, serve(doorGateway, ln))
	}
	if ln := r.ports.admin; ln != nil {
		doors = append(doors, serve(doorAdmin, ln))
	}
	ready()
	return together(ctx, doors...)
}

func (r *runtime) runSocket(ctx context.Context, ready func()) error {
	ln, err := listenSocket(ctx, r.srv.Config.Socket())
	if err != nil {
		return setup(err)
	}
	ready()
	return (&socket{out: r.conveyor, log: r.log}).serve(ctx, ln)
}
