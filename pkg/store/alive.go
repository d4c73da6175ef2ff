package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// Alive says to all servers which nodes hold a stream to this one, under one
// lease that ends some seconds after this server does. A new etcd leader
// restarts every lease, so whoever judges liveness looks at NodeStatus.LastSeen
// as well.
//
// Set and Clear only note what is wanted; Run writes it, and writes it again
// under a new lease when the old one was lost.
type Alive struct {
	Store  *Store
	Server mesh.ServerID
	TTL    time.Duration // of the lease; 0 is 10 s

	mu    sync.Mutex
	nodes map[string]bool // guarded by mu
	wake  chan struct{}   // guarded by mu; closed by the next change
	lost  time.Time       // guarded by mu; since when there is no lease, zero while there is
}

// aliveNode is the value of a key under alive/.
type aliveNode struct {
	Server mesh.ServerID `json:"server"`
}

// Set notes that node (role/id) holds a stream to this server.
func (a *Alive) Set(node string) { a.note(node, true) }

// Clear notes that it no longer does.
func (a *Alive) Clear(node string) { a.note(node, false) }

func (a *Alive) note(node string, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		a.nodes = map[string]bool{}
	}
	if on {
		a.nodes[node] = true
	} else {
		delete(a.nodes, node)
	}
	if a.wake != nil {
		close(a.wake)
	}
	a.wake = nil
}

// Away is how long this server has had no lease, and so was in no contact with
// the others; 0 while it has one. It counts from the first lease on.
func (a *Alive) Away() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost.IsZero() {
		return 0
	}
	return time.Since(a.lost)
}

func (a *Alive) setLost(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = at
}

// wanted returns the nodes to be noted and a channel that the next change closes.
func (a *Alive) wanted() (map[string]bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake == nil {
		a.wake = make(chan struct{})
	}
	return maps.Clone(a.nodes), a.wake
}

// Run keeps the lease and its keys until ctx ends, then takes them back.
func (a *Alive) Run(ctx context.Context) error {
	said := ""
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		err := a.session(ctx)
		if time.Since(began) > a.ttl() {
			n, said = 0, ""
		}
		if err != nil && ctx.Err() == nil && err.Error() != said { // once, for as long as it stays so
			said = err.Error()
			a.Store.log.Warn("liveness lease lost", "err", err)
		}
		wait(ctx, time.Millisecond+rand.N(leaseDelay(n, a.ttl())))
	}
	return nil
}

// leaseDelay is the longest time before try n+1 to have a lease: short at
// first, since etcd may only be electing a leader, and at most half of the
// lease's own time, since a store without space refuses each try.
func leaseDelay(n int, ttl time.Duration) time.Duration {
	return min(80*time.Millisecond<<min(n, 10), ttl/2)
}

func (a *Alive) ttl() time.Duration {
	if a.TTL == 0 {
		return 10 * time.Second
	}
	return a.TTL
}

// session lasts as long as one lease.
func (a *Alive) session(ctx context.Context) error {
	lease, err := a.Store.grant(ctx, a.ttl())
	if err != nil {
		return wrap("grant lease", err)
	}
	defer a.Store.revoke(ctx, lease)
	kept, err := a.Store.client.KeepAlive(ctx, lease)
	if err != nil {
		return wrap("keep lease", err)
	}
	a.setLost(time.Time{})
	defer func() { a.setLost(time.Now()) }()
	written := map[string]bool{}
	for {
		want, changed := a.wanted()
		if err := a.write(ctx, lease, written, want); err != nil {
			return wrap("note live nodes", err)
		}
		for same := true; same; {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				same = false
			case _, ok := <-kept:
				if !ok {
					return fmt.Errorf("store: keep lease: it has ended: %w", mesh.ErrUnavailable)
				}
			}
		}
	}
}

// write brings the keys under the lease from written to want.
func (a *Alive) write(ctx context.Context, lease clientv3.LeaseID, written, want map[string]bool) error {
	value, err := codec.Encode(aliveNode{a.Server})
	if err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(want)) {
		if written[node] {
			continue
		}
		err := a.Store.retry(ctx, func(ctx context.Context) error {
			_, err := a.Store.client.Put(ctx, aliveKey(node), string(value), clientv3.WithLease(lease))
			return err
		})
		if err != nil {
			return err
		}
		written[node] = true
	}
	for _, node := range slices.Sorted(maps.Keys(written)) {
		if want[node] {
			continue
		}
		// The node may have gone to another server, whose key this is then.
		err := a.Store.retry(ctx, func(ctx context.Context) error {
			_, err := a.Store.client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(aliveKey(node)), "=", lease)).
				Then(clientv3.OpDelete(aliveKey(node))).Commit()
			return err
		})
		if err != nil {
			return err
		}
		delete(written, node)
	}
	return nil
}

// AliveNodes returns the nodes (role/id) that hold a stream, and to which server.
func (s *Store) AliveNodes(ctx context.Context) (map[string]mesh.ServerID, error) {
	prefix := folderPrefix(folderAlive)
	entries, _, err := s.list(ctx, prefix, 0)
	if err != nil {
		return nil, wrap("list live nodes", err)
	}
	out := make(map[string]mesh.ServerID, len(entries))
	for _, e := range entries {
		n, err := codec.Decode[aliveNode](e.data)
		if err != nil {
			return nil, fmt.Errorf("store: read %s: %w", strings.TrimPrefix(e.key, root), err)
		}
		out[strings.TrimPrefix(e.key, prefix)] = n.Server
	}
	return out, nil
}
