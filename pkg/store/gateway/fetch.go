package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// stored is what a server has under one key; value is nil if there is none.
type stored struct {
	value []byte
	moment
}

// read asks for one key: from what a server has at hand, or so that the whole
// cluster answers.
func read(key string, serializable bool) question[stored] {
	return question[stored]{quorum: !serializable, ask: func(ctx context.Context, s *server, trailer *metadata.MD) (stored, error) {
		r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key), Serializable: serializable}, grpc.Trailer(trailer))
		if err != nil {
			return stored{}, err
		}
		out := stored{moment: moment{revision: r.GetHeader().GetRevision()}}
		if len(r.Kvs) > 0 {
			out.value = r.Kvs[0].Value
		}
		return out, nil
	}}
}

// route asks for a route, and on a miss once more so that the whole cluster
// answers.
func (c *Client) route(ctx context.Context, name mesh.ServerName) (answer, error) {
	got, err := c.read(ctx, RouteKey(name), true)
	if err == nil && got.value == nil {
		got, err = c.reread(ctx, name, got.moment)
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{moment: got.moment, at: time.Now()}
	if a.route, err = codec.Decode[mesh.Route](got.value); err != nil {
		return answer{}, fmt.Errorf("gateway: read route: %w", err)
	}
	return a, nil
}

func (c *Client) read(ctx context.Context, key string, serializable bool) (stored, error) {
	got, epoch, err := ask(ctx, c, read(key, serializable))
	got.epoch = epoch
	return got, err
}

// reread asks linearizably for a name that a server did not have at a moment.
// If that fails, the name counts as gone only when the server was at least as
// new as the last answer: an empty store never replaces a full one unconfirmed.
func (c *Client) reread(ctx context.Context, name mesh.ServerName, at moment) (stored, error) {
	got, err := c.read(ctx, RouteKey(name), false)
	switch last, known := c.memory.get(name); {
	case err == nil && got.value != nil:
		return got, nil
	case err == nil, known && at.reaches(last.moment):
		return stored{}, fmt.Errorf("gateway: look up route: %w", mesh.ErrNotFound)
	}
	return stored{}, fmt.Errorf("gateway: confirm that there is no route: %w: %w", err, mesh.ErrUnavailable)
}

// targets returns those of a route's hops: watched ones as they are known, the
// others as a server has them that is as new as the route.
func (c *Client) targets(ctx context.Context, a answer) (map[string]mesh.Target, error) {
	found, others := c.table.current(hopIDs(a.route))
	for ids := range slices.Chunk(others, MaxTxnReads) {
		if err := c.fetch(ctx, ids, a.moment, true, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fetch reads targets in one transaction, tells the table and adds those that
// exist to found. A server that is behind least may lack one, since the route may
// come from another: then the whole cluster is asked, and if it does not answer,
// what there is has to do.
func (c *Client) fetch(ctx context.Context, ids []string, least moment, asked bool, found map[string]mesh.Target) error {
	r, epoch, err := ask(ctx, c, readTargets(ids, true))
	if err != nil {
		return err
	}
	at := moment{epoch, r.GetHeader().GetRevision()}
	if least != (moment{}) && !at.reaches(least) {
		if newer, epoch, err := ask(ctx, c, readTargets(ids, false)); err == nil {
			r, at = newer, moment{epoch, newer.GetHeader().GetRevision()}
		}
	}
	if len(r.Responses) != len(ids) {
		return fmt.Errorf("gateway: read targets: %w", errors.New("the server answered another question"))
	}
	for i, id := range ids {
		kvs := r.Responses[i].GetResponseRange().GetKvs()
		if len(kvs) == 0 {
			c.table.learn(id, mesh.Target{}, false, at, asked)
			continue
		}
		t, err := codec.Decode[mesh.Target](kvs[0].Value)
		if err != nil {
			return fmt.Errorf("gateway: read target %s: %w", id, err)
		}
		c.table.learn(id, t, true, at, asked)
		found[id] = t
	}
	return nil
}

func readTargets(ids []string, serializable bool) question[*pb.TxnResponse] {
	txn := &pb.TxnRequest{}
	for _, id := range ids {
		read := &pb.RangeRequest{Key: []byte(TargetKey(id)), Serializable: serializable}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: read}})
	}
	return question[*pb.TxnResponse]{quorum: !serializable, ask: func(ctx context.Context, s *server, trailer *metadata.MD) (*pb.TxnResponse, error) {
		return s.kv.Txn(ctx, txn, grpc.Trailer(trailer))
	}}
}
