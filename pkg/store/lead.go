package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

const (
	// defaultTerm is how long an office stays with a server that is gone. Most
	// of what a takeover lasts is this.
	defaultTerm = 5 * time.Second
	// lookAgain bounds how long a server that waits for an office trusts its
	// watch: one that looks alive may deliver nothing.
	lookAgain = 10 * time.Second
)

// Lead runs f while this server holds the office, as the only one in the mesh,
// until ctx ends. Who loses the office waits for it again.
//
//	wait until nobody holds it ─▶ take it under a lease ─▶ f ─ lease lost ─▶ wait …
//	                                                      └─ returns ─▶ give it back
//
// f's context ends with cause ErrDeposed when the lease is lost, and Lead waits
// for f. A process that was paused may wake after its time without having
// noticed: so every transaction that f makes under its context compares that the
// office is still the one it began with, and fails with ErrDeposed otherwise.
//
// Lead returns what f returns of its own accord, and nil when ctx ends. It obeys
// ctx while etcd is away. An office that self holds already is of an earlier run
// of the same server and is taken over at once; so a server has one Lead of an
// office at a time.
func (s *Store) Lead(ctx context.Context, office string, self mesh.ServerID, f func(context.Context) error) error {
	key, err := officeKey(office)
	if err != nil {
		return err
	}
	c := candidate{s: s, key: key, self: self}
	for n := 0; ctx.Err() == nil; n++ {
		t, err := c.win(ctx)
		if err != nil {
			s.log.Debug("office not taken", "kind", office, "err", err)
			_ = pause(ctx, n) // ctx is looked at above
			continue
		}
		n = 0
		err = t.serve(ctx, f)
		if !errors.Is(err, ErrDeposed) {
			return err
		}
		s.log.Warn("office lost", "kind", office)
	}
	return nil
}

// Leader returns which server holds the office. It returns ErrNotFound when
// none does.
func (s *Store) Leader(ctx context.Context, office string) (mesh.ServerID, error) {
	key, err := officeKey(office)
	if err != nil {
		return "", err
	}
	resp, err := s.get(ctx, key)
	if err != nil {
		return "", wrap("get leader", err)
	}
	if len(resp.Kvs) == 0 {
		return "", fmt.Errorf("store: get leader of %s: %w", office, mesh.ErrNotFound)
	}
	h, err := codec.Decode[officeHolder](resp.Kvs[0].Value)
	return h.Server, err
}

// officeHolder is the value of a key under election/.
type officeHolder struct {
	Server mesh.ServerID `json:"server"`
	Since  time.Time     `json:"since"`
}

// candidate waits for an office.
type candidate struct {
	s    *Store
	key  string
	self mesh.ServerID
}

// win blocks until the office is this server's.
func (c candidate) win(ctx context.Context) (*term, error) {
	for {
		if err := c.vacant(ctx); err != nil {
			return nil, err
		}
		t, err := c.take(ctx)
		if t != nil || err != nil {
			return t, err
		}
	}
}

// vacant waits until nobody holds the office.
func (c candidate) vacant(ctx context.Context) error {
	for {
		resp, err := c.s.get(ctx, c.key)
		if err != nil {
			return wrap("get leader", err)
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		kv := resp.Kvs[0]
		if h, err := codec.Decode[officeHolder](kv.Value); err == nil && h.Server == c.self {
			return c.clear(ctx, kv.CreateRevision)
		}
		if err := c.await(ctx, resp.Header.Revision); err != nil {
			return err
		}
	}
}

// clear takes back what an earlier run of this server left.
func (c candidate) clear(ctx context.Context, created int64) error {
	err := c.s.retry(ctx, func(ctx context.Context) error {
		_, err := c.s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(c.key), "=", created)).
			Then(clientv3.OpDelete(c.key)).Commit()
		return err
	})
	return wrap("clear office", err)
}

// await returns once the office's key was deleted, or it is time to look again.
func (c candidate) await(ctx context.Context, after int64) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), lookAgain)
	defer cancel()
	for resp := range c.s.client.Watch(ctx, c.key, clientv3.WithRev(after+1)) {
		if err := resp.Err(); err != nil && ctx.Err() == nil {
			return wrap("watch leader", err)
		}
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypeDelete {
				return nil
			}
		}
	}
	return nil
}

// take tries to get the vacant office; nil when another was faster.
func (c candidate) take(ctx context.Context) (*term, error) {
	value, err := codec.Encode(officeHolder{c.self, time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	t := &term{s: c.s, key: c.key, until: time.Now().Add(c.s.term)}
	if t.lease, err = c.s.grant(ctx, c.s.term); err != nil {
		return nil, wrap("grant lease", err)
	}
	err = c.s.retry(ctx, func(ctx context.Context) error {
		resp, err := c.s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)).
			Then(clientv3.OpPut(c.key, string(value), clientv3.WithLease(t.lease)), clientv3.OpGet(c.key)).
			Else(clientv3.OpGet(c.key)).Commit()
		if err != nil {
			return err
		}
		kvs := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
		// It is ours as well when an earlier try got through unnoticed.
		if len(kvs) == 1 && kvs[0].Lease == int64(t.lease) {
			t.created = kvs[0].CreateRevision
		}
		return nil
	})
	if err != nil || t.created == 0 {
		c.s.revoke(ctx, t.lease)
		return nil, wrap("take office", err)
	}
	return t, nil
}
