package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// Run keeps watches on the targets that lookups ask for, reports their changes
// and keeps an eye on the servers, also on those that nobody asks at present. It
// returns nil when ctx ends.
func (c *Client) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.probe(ctx) })
	defer wg.Wait()
	const shortest, longest = 100 * time.Millisecond, 2 * time.Second
	pause := shortest
	for ctx.Err() == nil {
		start := time.Now()
		err := c.follow(ctx)
		c.table.unwatch()
		if errors.Is(err, errResync) || errors.Is(err, errMove) {
			continue
		}
		if time.Since(start) > longest {
			pause = shortest
		}
		c.cfg.Log.Debug("watch of targets ended", "err", err)
		sleep(ctx, time.Duration(float64(pause)*(0.5+rand.Float64())))
		pause = min(2*pause, longest)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

var (
	// errResync ends a watch stream that did nothing wrong: it is time to compare.
	errResync = errors.New("time to compare")
	// errMove ends one whose server is no longer to be relied on.
	errMove = errors.New("another server is better")
)

// follow is the life of one watch stream: what is wanted is read, then watched,
// and what becomes wanted meanwhile is added.
func (c *Client) follow(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, c.cfg.Resync, errResync)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for ids := range slices.Chunk(c.table.wanted(c.idle()), MaxTxnReads) {
		if err := c.fetch(ctx, ids, moment{}, false, map[string]mesh.Target{}); err != nil {
			return err
		}
	}
	c.sync()
	order := c.servers.order()
	if len(order) == 0 {
		return errNobody
	}
	s := order[0]
	w, err := s.watch.Watch(clientv3.WithRequireLeader(ctx))
	if err != nil {
		s.doubt()
		return fmt.Errorf("open watch at %s: %w", s.addr, err)
	}
	f := &following{client: c, stream: w, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(f.receive)
	wg.Go(func() { c.guard(ctx, s, f, cancel) })
	err = f.send(ctx)
	cancel(nil)
	wg.Wait()
	if cause := context.Cause(ctx); cause == errResync || cause == errMove {
		return cause
	}
	s.doubt() // until it answers something
	return errors.Join(err, f.err)
}

// guard ends the watch at s when s is no longer one of the servers or does not
// answer, has no leader while another has, or is of an epoch that is over. The
// stream itself may not show it.
func (c *Client) guard(ctx context.Context, s *server, f *following, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		sleep(ctx, probeEvery)
		if epoch := f.epoch.Load(); epoch != 0 && epoch < c.floor() || s.gone() || !slices.Contains(c.servers.all(), s) || c.servers.outdone(s) {
			c.cfg.Log.Debug("watch of targets moved", "from", s.addr)
			end(errMove)
			return
		}
	}
}

func (c *Client) idle() time.Time { return time.Now().Add(-c.cfg.TargetIdle) }

type following struct {
	client *Client
	stream pb.Watch_WatchClient

	ended chan struct{} // receive is over; err is valid
	err   error
	epoch atomic.Int64 // of the server, 0 before it said anything

	mu      sync.Mutex // guards waiting
	waiting []string   // ids whose creation was sent and not yet answered, in order
}

// send requests watches and reports changes until the stream or ctx ends.
func (f *following) send(ctx context.Context) error {
	c := f.client
	for {
		for id, from := range c.table.request(c.idle()) {
			if err := f.create(id, from); err != nil {
				return err
			}
		}
		for _, ch := range c.table.changes() {
			c.cfg.OnTarget(ch.target, ch.deleted)
		}
		select {
		case <-c.table.wake:
		case <-f.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *following) create(id string, from int64) error {
	f.mu.Lock()
	f.waiting = append(f.waiting, id)
	f.mu.Unlock()
	err := f.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(TargetKey(id)), StartRevision: from},
	}})
	if err != nil {
		return fmt.Errorf("watch target: %w", err)
	}
	return nil
}

func (f *following) receive() {
	defer close(f.ended)
	for f.err == nil {
		var r *pb.WatchResponse
		if r, f.err = f.stream.Recv(); f.err == nil {
			f.err = f.handle(r)
		}
	}
}

// begin notes which epoch the server is of, from what came before its first
// response.
func (f *following) begin() error {
	if f.epoch.Load() != 0 {
		return nil
	}
	header, err := f.stream.Header()
	if err != nil {
		return err
	}
	epoch, err := f.client.epochOf(header)
	f.epoch.Store(epoch)
	return err
}

// handle takes one response. Nothing is ever cancelled here, so a watch that
// the server cancels (compaction, no leader) ends the stream and all is read anew.
func (f *following) handle(r *pb.WatchResponse) error {
	if err := f.begin(); err != nil {
		return err
	}
	if r.Canceled {
		return fmt.Errorf("watch was cancelled: %s", r.CancelReason)
	}
	if r.Created {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.waiting) == 0 {
			return errors.New("a watch was created that nobody asked for")
		}
		id := f.waiting[0]
		f.waiting = f.waiting[1:]
		if !f.client.table.watched(id, f.epoch.Load()) {
			return fmt.Errorf("what is known of target %s: %w", id, errEpoch)
		}
		return nil
	}
	for _, e := range r.Events {
		if err := f.event(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *following) event(e *mvccpb.Event) error {
	id := strings.TrimPrefix(string(e.Kv.Key), targetPrefix)
	at := moment{f.epoch.Load(), e.Kv.ModRevision}
	if e.Type == mvccpb.Event_DELETE {
		f.client.table.learn(id, mesh.Target{}, false, at, false)
		return nil
	}
	t, err := codec.Decode[mesh.Target](e.Kv.Value)
	if err != nil {
		return fmt.Errorf("read target %s: %w", id, err)
	}
	f.client.table.learn(id, t, true, at, false)
	return nil
}
