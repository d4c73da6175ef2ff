package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// server is one management server. Each has a client of its own: a client of
// several goes on using one that is frozen.
type server struct {
	addr   string
	client *clientv3.Client
	kv     pb.KVClient
	watch  pb.WatchClient
	tie    uint64 // decides between servers that are alike, for each client in its own way
	health
}

// KeepAlive is how often a quiet connection to a server is tested. The server's
// enforcement policy has to allow it.
const KeepAlive = 15 * time.Second

func dial(addr string, creds revocable) (*server, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"https://" + addr},
		DialKeepAliveTime:    KeepAlive,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxUnaryRetries:      1, // tries are counted here
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithNoProxy(),
			grpc.WithContextDialer(creds.dial),
			grpc.WithTransportCredentials(creds.Clone()),
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
	return &server{addr: addr, client: c, kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn), tie: rand.Uint64()}, nil
}

// servers are the ones there are now.
type servers struct {
	creds revocable

	mu    sync.Mutex // guards the rest
	addrs []string
	list  []*server // replaced, never changed
}

// update makes the list that of addrs. It returns the addresses that are no
// longer in it.
func (s *servers) update(addrs []string) (removed []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(addrs, s.addrs) {
		return nil, nil
	}
	var errs []error
	var list []*server
	for _, a := range addrs {
		i := slices.IndexFunc(s.list, func(x *server) bool { return x.addr == a })
		if i >= 0 {
			list = append(list, s.list[i])
			continue
		}
		x, err := dial(a, s.creds)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, x)
	}
	for _, x := range s.list {
		if !slices.Contains(list, x) {
			removed = append(removed, x.addr)
			errs = append(errs, x.client.Close())
		}
	}
	s.addrs, s.list = slices.Clone(addrs), list
	return removed, errors.Join(errs...)
}

func (s *servers) all() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// order returns the servers worth asking, best first: those without a fault,
// and among them the nearest.
func (s *servers) order() []*server {
	type ranked struct {
		*server
		standing int
		distance time.Duration
	}
	all := s.all()
	list := make([]ranked, 0, len(all))
	for _, x := range all {
		if !x.gone() {
			standing, distance := x.rank()
			list = append(list, ranked{x, standing, distance})
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(a.standing-b.standing, cmp.Compare(a.distance, b.distance), cmp.Compare(a.tie, b.tie))
	})
	out := make([]*server, len(list))
	for i, x := range list {
		out[i] = x.server
	}
	return out
}

// outdone says whether x has no leader and a server without a fault is there.
func (s *servers) outdone(x *server) bool {
	standing, _ := x.rank()
	if standing != leaderless {
		return false
	}
	order := s.order()
	if len(order) == 0 {
		return false
	}
	best, _ := order[0].rank()
	return best == good
}

// gone says whether there are servers and none is worth asking.
func (s *servers) gone() bool {
	all := s.all()
	return len(all) > 0 && !slices.ContainsFunc(all, func(x *server) bool { return !x.gone() })
}

// sync follows the addresses as they are now.
func (c *Client) sync() {
	removed, err := c.servers.update(c.cfg.Addresses())
	if err != nil {
		c.cfg.Log.Warn("management address was unusable", "err", err)
	}
	for _, addr := range removed {
		c.metrics.forget(addr)
	}
}
