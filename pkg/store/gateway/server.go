package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// NoLeader is the trailer of a reply from a server whose etcd has no leader;
// its value is "1".
const NoLeader = "meshctl-no-leader"

// Server is the management side. Who calls is decided before it, by the mesh
// port's interceptor; what may be asked is decided here.
type Server struct {
	// Client reaches the local etcd member.
	Client *clientv3.Client
	// PeerID names the calling entry; budgets and limits are per name. Nil:
	// all callers share one.
	PeerID func(context.Context) string
	// HasLeader says whether the local member knows a leader. Nil: it always does.
	HasLeader func() bool
	// Epoch is the mesh epoch, which every reply names; it rises when state is
	// restored, and revisions of two epochs say nothing about each other. Nil or
	// 0: it is not said.
	Epoch func() int64
	// Timeout bounds one forwarded read. 0: 1 s.
	Timeout time.Duration
	// MissRate and MissBurst are the budget of linearizable reads per entry, in
	// reads a second. A read beyond it waits; one that would wait longer than
	// its deadline is refused. 0: 50 and 100.
	MissRate  rate.Limit
	MissBurst int
	// MaxStreams bounds watch streams per entry, 0: 16. MaxWatches bounds
	// watches per stream, 0: 4096.
	MaxStreams, MaxWatches int
	Log                    *slog.Logger // nil: none

	budget    budget
	streams   counter
	complaint rate.Sometimes
}

// Register adds KV and Watch to g. The caller gives g RefuseUnknown as its
// handler of unknown services.
func (s *Server) Register(g *grpc.Server) {
	s.complaint = rate.Sometimes{First: 3, Interval: time.Second}
	pb.RegisterKVServer(g, &kv{Server: s})
	pb.RegisterWatchServer(g, &watch{Server: s})
}

// RefuseUnknown answers services and methods that do not exist here, etcd's
// other ones among them, as forbidden. It is meant for grpc.UnknownServiceHandler.
func RefuseUnknown(any, grpc.ServerStream) error { return denied("this method") }

// kv embeds no Unimplemented type: a method that etcd adds breaks the build
// instead of getting an answer nobody chose.
type kv struct {
	*Server
	pb.UnsafeKVServer
}

func (s *kv) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	allowed, err := checkRange(r)
	if err != nil {
		return nil, s.refuse(ctx, err)
	}
	return forward(ctx, s.Server, r.Serializable, func(ctx context.Context) (*pb.RangeResponse, error) {
		return pb.NewKVClient(s.Client.ActiveConnection()).Range(ctx, allowed)
	})
}

func (s *kv) Txn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	allowed, serializable, err := checkTxn(t)
	if err != nil {
		return nil, s.refuse(ctx, err)
	}
	return forward(ctx, s.Server, serializable, func(ctx context.Context) (*pb.TxnResponse, error) {
		return pb.NewKVClient(s.Client.ActiveConnection()).Txn(ctx, allowed)
	})
}

func (s *kv) RangeStream(_ *pb.RangeRequest, st grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	return s.refuse(st.Context(), denied("RangeStream"))
}

func (s *kv) Put(ctx context.Context, _ *pb.PutRequest) (*pb.PutResponse, error) {
	return nil, s.refuse(ctx, denied("Put"))
}

func (s *kv) DeleteRange(ctx context.Context, _ *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return nil, s.refuse(ctx, denied("DeleteRange"))
}

func (s *kv) Compact(ctx context.Context, _ *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return nil, s.refuse(ctx, denied("Compact"))
}

// refuse passes on err and says now and then that an entry asks for what no
// entry of ours asks for: somebody else may be at it.
func (s *Server) refuse(ctx context.Context, err error) error {
	if s.Log != nil {
		s.complaint.Do(func() { s.Log.Warn("gateway request was denied", "entry", s.peer(ctx), "err", err) })
	}
	return err
}

// forward asks the local etcd once. Reads that need a quorum come out of the
// caller's budget first.
func forward[R any](ctx context.Context, s *Server, serializable bool, ask func(context.Context) (R, error)) (R, error) {
	var none R
	timeout := s.Timeout
	if timeout == 0 {
		timeout = time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !serializable {
		if err := s.budget.wait(ctx, s.peer(ctx), s.MissRate, s.MissBurst); err != nil {
			return none, status.Error(codes.ResourceExhausted, "gateway: too many misses")
		}
	}
	r, err := ask(outgoing(ctx))
	said := s.epoch()
	if s.HasLeader != nil && !s.HasLeader() {
		said.Set(NoLeader, "1")
	}
	if len(said) > 0 {
		err = errors.Join(err, grpc.SetTrailer(ctx, said))
	}
	if err != nil {
		return none, fromEtcd(err)
	}
	return r, nil
}

func (s *Server) peer(ctx context.Context) string {
	if s.PeerID == nil {
		return ""
	}
	return s.PeerID(ctx)
}

// outgoing drops what the caller sent as metadata, but for etcd's own "I need a
// leader".
func outgoing(ctx context.Context) context.Context {
	const requireLeader = "hasleader"
	if v := metadata.ValueFromIncomingContext(ctx, requireLeader); len(v) > 0 {
		return metadata.AppendToOutgoingContext(ctx, requireLeader, v[0])
	}
	return ctx
}

// fromEtcd keeps the code, and the text only if it is etcd's own: other texts
// describe this server's inside.
func fromEtcd(err error) error {
	st, _ := status.FromError(err)
	if errors.Is(err, context.DeadlineExceeded) {
		st = status.New(codes.DeadlineExceeded, "")
	}
	text := st.Message()
	if !strings.HasPrefix(text, "etcdserver: ") {
		text = "gateway: the store did not answer"
	}
	return status.Error(st.Code(), text)
}
