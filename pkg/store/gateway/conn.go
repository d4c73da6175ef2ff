package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// server is one management server. Each has a client of its own: a client of
// several goes on using one that is frozen.
type server struct {
	addr   string
	client *clientv3.Client
	kv     pb.KVClient
	watch  pb.WatchClient
}

// KeepAlive is how often a quiet connection to a server is tested. The server's
// enforcement policy has to allow it.
const KeepAlive = 15 * time.Second

func dial(addr string, cfg *tls.Config) (*server, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"https://" + addr},
		TLS:                  cfg.Clone(),
		DialKeepAliveTime:    KeepAlive,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxUnaryRetries:      1, // tries are counted here
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithNoProxy(),
			// A server that comes back is noticed within seconds.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3, MaxDelay: 3 * time.Second},
				MinConnectTimeout: 5 * time.Second,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: prepare %s: %w", addr, err)
	}
	conn := c.ActiveConnection()
	conn.Connect()
	return &server{addr: addr, client: c, kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn)}, nil
}

// servers are the ones there are now and the one to be asked first.
type servers struct {
	tls *tls.Config

	mu    sync.Mutex // guards the rest
	addrs []string
	list  []*server
	first int
}

// update makes the list that of addrs, and returns it and who is first.
func (s *servers) update(addrs []string) ([]*server, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(addrs, s.addrs) {
		return s.list, s.first, nil
	}
	var errs []error
	var list []*server
	for _, a := range addrs {
		i := slices.IndexFunc(s.list, func(x *server) bool { return x != nil && x.addr == a })
		if i >= 0 {
			list = append(list, s.list[i])
			s.list[i] = nil
			continue
		}
		x, err := dial(a, s.tls)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, x)
	}
	for _, gone := range s.list {
		if gone != nil {
			errs = append(errs, gone.client.Close())
		}
	}
	s.addrs, s.list, s.first = slices.Clone(addrs), list, 0
	return s.list, s.first, errors.Join(errs...)
}

// passOver makes another server the first, if failed is it.
func (s *servers) passOver(failed *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) > 0 && s.list[s.first] == failed {
		s.first = (s.first + 1) % len(s.list)
	}
}

// tries is how many servers are asked one question, one after the other.
const tries = 2

// try asks until one server answers. The error is ErrUnavailable if none did,
// ErrDenied if one refused.
func (c *Client) try(ctx context.Context, question func(context.Context, *server) error) error {
	list, first, err := c.servers.update(c.cfg.Addresses())
	if err != nil {
		c.cfg.Log.Warn("management address was unusable", "err", err)
	}
	err = errors.New("no management address is known")
	for i := range tries {
		if len(list) == 0 {
			break
		}
		s := list[(first+i)%len(list)]
		if err = c.once(ctx, s, question); err == nil {
			return nil
		}
		if code := status.Code(err); code == codes.PermissionDenied || code == codes.Unauthenticated {
			return fmt.Errorf("gateway: ask %s: %w: %w", s.addr, err, mesh.ErrDenied)
		}
		c.servers.passOver(s)
	}
	return fmt.Errorf("gateway: ask management: %w: %w", err, mesh.ErrUnavailable)
}

// once asks one server once and tells the breaker how it went.
func (c *Client) once(ctx context.Context, s *server, question func(context.Context, *server) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PerTry)
	defer cancel()
	err := question(ctx, s)
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted:
		if c.breaker.answered() {
			c.cfg.Log.Info("management answered lookups again", "to", s.addr)
		}
	default:
		if c.breaker.failed() {
			c.cfg.Log.Warn("management did not answer lookups", "to", s.addr, "err", err)
		}
	}
	return err
}

// noteLeader counts an answer that came without a leader.
func (c *Client) noteLeader(trailer metadata.MD) {
	if len(trailer.Get(NoLeader)) > 0 {
		c.metrics.noLeader.Inc()
	}
}
