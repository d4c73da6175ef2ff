package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	defaultMaxStreams = 16
	defaultMaxWatches = 4096
)

// watch embeds no Unimplemented type, as kv.
type watch struct {
	*Server
	pb.UnsafeWatchServer
}

type (
	watchDown = grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]
	watchUp   = grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]
)

// Watch joins the caller's stream to one of the local etcd. A request that is
// not allowed ends the stream; one watch too many is refused as etcd refuses a
// watch, and the others go on.
func (s *watch) Watch(down watchDown) error {
	peer := s.peer(down.Context())
	if !s.streams.add(peer, orDefault(s.MaxStreams, defaultMaxStreams)) {
		return status.Error(codes.ResourceExhausted, "gateway: too many watch streams")
	}
	defer s.streams.done(peer)

	if said := s.epoch(); len(said) > 0 {
		if err := down.SetHeader(said); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(down.Context())
	up, err := pb.NewWatchClient(s.Client.ActiveConnection()).Watch(outgoing(ctx))
	if err != nil {
		cancel(nil)
		return fromEtcd(err)
	}
	p := &proxied{down: down, up: up, most: int64(orDefault(s.MaxWatches, defaultMaxWatches))}
	// Nobody waits for this goroutine: its Recv ends only after Watch returned,
	// because gRPC has no other way to end it. It touches nothing of ours then.
	go func() {
		err := p.requests()
		if status.Code(err) == codes.PermissionDenied {
			err = s.refuse(ctx, err)
		}
		cancel(err)
	}()
	err = p.responses()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	return p.status(err)
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// proxied is one watch stream in both directions.
type proxied struct {
	down watchDown
	up   watchUp
	most int64

	watches atomic.Int64 // created or being created
	sending sync.Mutex   // both directions send to down, one at a time
}

// errDone is the cause of a clean end: the caller closed its side.
var errDone = errors.New("caller is done")

func (p *proxied) requests() error {
	for {
		r, err := p.down.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errDone
			}
			return err
		}
		if err := p.request(r); err != nil {
			return err
		}
	}
}

func (p *proxied) request(r *pb.WatchRequest) error {
	switch u := r.GetRequestUnion().(type) {
	case *pb.WatchRequest_CreateRequest:
		c, err := checkWatch(u.CreateRequest)
		if err != nil {
			return err
		}
		if p.watches.Add(1) > p.most {
			p.watches.Add(-1)
			return p.refuse("gateway: too many watches on one stream")
		}
		return p.up.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: c}})
	case *pb.WatchRequest_CancelRequest:
		c := &pb.WatchCancelRequest{WatchId: u.CancelRequest.GetWatchId()}
		return p.up.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: c}})
	case *pb.WatchRequest_ProgressRequest:
		return p.up.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	}
	return denied("an unknown watch request")
}

// refuse answers the creation as etcd answers one it does not accept.
func (p *proxied) refuse(reason string) error {
	return p.send(&pb.WatchResponse{
		Header:  &pb.ResponseHeader{},
		WatchId: -1, Created: true, Canceled: true, CancelReason: reason,
	})
}

func (p *proxied) send(r *pb.WatchResponse) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.down.Send(r)
}

func (p *proxied) responses() error {
	for {
		r, err := p.up.Recv()
		if err != nil {
			return err
		}
		if r.GetCanceled() {
			p.watches.Add(-1)
		}
		if err := p.send(r); err != nil {
			return err
		}
	}
}

func (p *proxied) status(err error) error {
	switch st, ok := status.FromError(err); {
	case errors.Is(err, errDone):
		return nil
	case ok && st.Code() == codes.PermissionDenied:
		return err
	}
	return fromEtcd(err)
}
