package mgmt

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// adminReadTime bounds the look-up of an administrator's role.
const adminReadTime = 2 * time.Second

// guard stands before every call: it asks the table (twice: before the message
// is read and before the method runs), finds an administrator's role of now, and
// turns a panic of one call into an answer.
type guard struct {
	access  access
	revoked func(identity.Peer) error
	// collecting says whether a mesh that was restored still waits for what its
	// nodes know. nil: it does not.
	collecting func() bool
	// admin returns the administrator's record of now.
	admin func(context.Context, mesh.AdminID) (mesh.Administrator, error)
	// person returns who a Telegram user is now.
	person func(context.Context, mesh.TelegramID) (admin.BotPerson, error)
	// renew says whether the caller should replace its certificate soon.
	renew   func(identity.Peer) bool
	metrics *metrics
	// onStop calls its argument when the server stops, unless released before.
	onStop func(func()) (release func() bool)
	log    *slog.Logger
	now    func() time.Time
}

// errStopping ends what would otherwise stay open for as long as its caller likes.
var errStopping = fmt.Errorf("mgmt: this server is stopping: %w", mesh.ErrUnavailable)

// errCollecting refuses who may have been refused after the backup was made.
var errCollecting = mesh.WithHint(fmt.Errorf("mgmt: the mesh was restored from a backup and waits for the revocations its nodes keep: %w", mesh.ErrUnavailable),
	"try again in a minute or two; on the server itself `meshctl mgmt status` says how far it is")

// early asks the table when a call begins, before any of its message is read.
// gRPC runs it in the connection's reader, so it must not wait for anything.
func (g *guard) early(ctx context.Context, info *tap.Info) (context.Context, error) {
	if _, _, err := g.decide(ctx, info.FullMethodName); err != nil {
		err = rpcstatus.To(err)
		g.metrics.called(g.access, info.FullMethodName, status.Code(err))
		return ctx, err
	}
	return ctx, nil
}

// decide finds out who calls, and the rule that admits the call.
func (g *guard) decide(ctx context.Context, method string) (caller, rule, error) {
	c, ok := callerOf(ctx)
	if !ok {
		return c, rule{}, fmt.Errorf("mgmt: call %s: caller unknown: %w", mesh.Quotable(method), mesh.ErrDenied)
	}
	// Not as of the handshake: the connection may be older than the end.
	expired := c.peer.Leaf != nil && g.now().After(c.peer.Leaf.NotAfter)
	r, err := g.access.decide(method, c.door, c.kind, expired)
	if err == nil && c.peer.Leaf != nil {
		err = g.revoked(c.peer)
	}
	if err == nil && !r.collects && c.door != doorSocket && c.door != doorAux && g.collecting != nil && g.collecting() {
		err = errCollecting
	}
	return c, r, err
}

// admit returns the context for the call, which names the caller, or the reason
// why it is refused.
func (g *guard) admit(ctx context.Context, method string) (context.Context, error) {
	c, r, err := g.decide(ctx, method)
	if err != nil {
		return nil, err
	}
	if c.peer.Leaf != nil {
		ctx = identity.WithPeer(ctx, c.peer)
	}
	if c.kind == kindAux {
		return g.admitBot(ctx, method, r.bot)
	}
	if r.need == "" {
		return ctx, nil
	}
	who, err := g.administrator(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := r.permits(method, who.Role); err != nil {
		return nil, err
	}
	return admin.WithCaller(ctx, who), nil
}

// administrator finds the role that the caller has now.
func (g *guard) administrator(ctx context.Context, c caller) (admin.Caller, error) {
	request := newRequestID()
	if c.kind == kindLocal {
		return admin.Caller{Actor: mesh.Actor(fmt.Sprintf("local:%d", c.uid)), Role: mesh.AdminOwner, Request: request}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminReadTime)
	defer cancel()
	a, err := g.admin(ctx, mesh.AdminID(c.peer.ID))
	switch {
	case mesh.Kind(err) == mesh.ErrNotFound || err == nil && a.Revoked:
		return admin.Caller{}, mesh.WithHint(fmt.Errorf("mgmt: administrator %s: no longer admitted: %w", c.peer.ID, mesh.ErrDenied),
			"ask an owner for a new token, then `meshctl admin login`")
	case err == nil && a.Suspended:
		return admin.Caller{}, mesh.WithHint(fmt.Errorf("mgmt: administrator %s: suspended: %w", c.peer.ID, mesh.ErrDenied),
			"ask an owner to lift it: meshctl admin administrator resume")
	case err != nil:
		return admin.Caller{}, mesh.WithHint(fmt.Errorf("mgmt: look up administrator: %w: %w", err, mesh.ErrUnavailable),
			"on the server itself `meshctl mgmt status` works without the store")
	}
	return admin.Caller{Actor: mesh.Actor("admin:" + string(a.ID)), Role: a.Role, Request: request}, nil
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
	defer g.finish(info.FullMethod, &err)
	ctx, err = g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if c, _ := callerOf(ctx); c.kind == kindAdmin && g.renew(c.peer) {
		if err := grpc.SetHeader(ctx, metadata.Pairs(admin.RenewHeader, c.peer.Serial)); err != nil {
			g.log.Debug("header not sent", "method", info.FullMethod, "err", err)
		}
	}
	return h(ctx, req)
}

// bare stands before the calls of a server that has no mesh yet: nobody has an
// identity that the table could be asked about.
func (g *guard) bare(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
	defer g.finish(info.FullMethod, &err)
	return h(ctx, req)
}

func (g *guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer g.finish(info.FullMethod, &err)
	ctx, err := g.admit(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.onStop(func() { cancel(errStopping) })()
	return h(srv, &namedStream{ss, ctx})
}

// finish turns what a call ended with into a status, a panic included, and
// counts it. It is deferred, so that it sees the panic.
func (g *guard) finish(method string, err *error) {
	if p := recover(); p != nil {
		g.metrics.panics.Inc()
		g.log.Error("call panicked", "method", method, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "mgmt: internal fault; the server's log has the details")
	}
	*err = rpcstatus.To(*err)
	g.metrics.called(g.access, method, status.Code(*err))
}

// namedStream is a stream whose context names the caller.
type namedStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream asks for it
}

func (s *namedStream) Context() context.Context { return s.ctx }

// outward is what a node is told of err. What was refused, and why, it may know;
// faults of this server's inside stay in its log.
func outward(log *slog.Logger, what string, err error) error {
	if err == nil {
		return nil
	}
	if _, chosen := status.FromError(err); chosen {
		return err
	}
	if k := mesh.Kind(err); k != nil && k != mesh.ErrUnavailable {
		return err
	}
	log.Warn("node not served", "method", what, "err", err)
	return mesh.WithHint(fmt.Errorf("mgmt: %s: the server cannot do it now: %w", what, mesh.ErrUnavailable), "try again; the server's log has the cause")
}
