package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ErrDeposed says that the office under which something was to be done is no
// longer this server's. Nothing was written; whoever holds the office does it.
var ErrDeposed = fmt.Errorf("store: the office is another server's by now: %w", mesh.ErrConflict)

// term is one time in an office.
type term struct {
	s       *Store
	key     string
	created int64 // revision that made the key: the epoch
	lease   clientv3.LeaseID
	until   time.Time // not before then the lease ends by itself
}

// serve runs f for as long as the lease can be kept, waits for it, and gives the
// office back.
func (t *term) serve(ctx context.Context, f func(context.Context) error) error {
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := t.keep(own); err != nil {
			end(err)
		}
	}()
	err := f(context.WithValue(own, fenceKey{}, &fence{key: t.key, created: t.created, lost: func() { end(ErrDeposed) }}))
	end(nil) // the first cause counts
	<-kept
	t.s.revoke(ctx, t.lease)
	switch {
	case errors.Is(context.Cause(own), ErrDeposed):
		return ErrDeposed
	case ctx.Err() != nil:
		return nil
	}
	return err
}

// keep renews the lease until ctx ends, and returns ErrDeposed once it is, or
// may be, over. It counts from before each request, so that it never believes
// in a lease for longer than etcd does.
func (t *term) keep(ctx context.Context) error {
	for n := 0; ; n++ {
		asked := time.Now()
		err := t.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			t.until, n = asked.Add(t.s.term), 0
			wait(ctx, t.s.term/3)
		case errors.Is(err, rpctypes.ErrLeaseNotFound), !time.Now().Before(t.until):
			return ErrDeposed
		default:
			_ = pause(ctx, n) // ctx is looked at above
		}
	}
}

func (t *term) renew(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, t.until)
	defer cancel()
	return t.s.try(ctx, func(ctx context.Context) error {
		_, err := t.s.client.KeepAliveOnce(ctx, t.lease)
		return err
	})
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// grant asks for a lease of that length, in whole seconds.
func (s *Store) grant(ctx context.Context, ttl time.Duration) (id clientv3.LeaseID, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Grant(ctx, int64(max(1, ttl/time.Second)))
		if err == nil {
			id = resp.ID
		}
		return err
	})
	return id, err
}

// revoke gives a lease back, so that others need not wait for its end. If etcd
// is away the lease ends by itself.
func (s *Store) revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.perTry)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil {
		s.log.Debug("lease not given back", "err", err)
	}
}

// fence is the epoch of an office: the revision that made its key.
type fence struct {
	key     string
	created int64
	lost    func() // ends the work that is done under it
}

type fenceKey struct{}

// fenceOf is the fence under which ctx writes, nil for none.
func fenceOf(ctx context.Context) *fence {
	f, _ := ctx.Value(fenceKey{}).(*fence)
	return f
}

// holds is the condition of every write, and show what tells in the Else branch
// whether it was the one that failed.
func (f *fence) holds() []clientv3.Cmp {
	if f == nil {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(f.key), "=", f.created)}
}

func (f *fence) show() []clientv3.Op {
	if f == nil {
		return nil
	}
	return []clientv3.Op{clientv3.OpGet(f.key)}
}

// broken says whether the last answer of an Else branch, which is that of show,
// has another epoch. It ends the work then.
func (f *fence) broken(answers []*pb.ResponseOp) bool {
	if f == nil {
		return false
	}
	kvs := answers[len(answers)-1].GetResponseRange().GetKvs()
	if len(kvs) == 1 && kvs[0].CreateRevision == f.created {
		return false
	}
	f.lost()
	return true
}

// erase deletes a key or range outside a transaction, under ctx's fence.
func (s *Store) erase(ctx context.Context, key string, opts ...clientv3.OpOption) error {
	f := fenceOf(ctx)
	return s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Txn(ctx).If(f.holds()...).Then(clientv3.OpDelete(key, opts...)).Else(f.show()...).Commit()
		if err == nil && !resp.Succeeded && f.broken(resp.Responses) {
			return ErrDeposed
		}
		return err
	})
}
