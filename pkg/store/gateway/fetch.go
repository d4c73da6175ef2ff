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

// read gets one key from one server; value is nil if there is none.
func (c *Client) read(ctx context.Context, s *server, key string, serializable bool) (value []byte, revision int64, err error) {
	var trailer metadata.MD
	r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key), Serializable: serializable}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, 0, err
	}
	c.noteLeader(trailer)
	if len(r.Kvs) > 0 {
		value = r.Kvs[0].Value
	}
	return value, r.GetHeader().GetRevision(), nil
}

// route asks for a route: from what the server has at hand, and on a miss once
// more so that the whole cluster answers.
func (c *Client) route(ctx context.Context, name mesh.ServerName) (answer, error) {
	key := RouteKey(name)
	var value []byte
	var revision int64
	var asked *server
	err := c.try(ctx, func(ctx context.Context, s *server) (err error) {
		asked = s
		value, revision, err = c.read(ctx, s, key, true)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	if value == nil {
		value, revision, err = c.reread(ctx, asked, name, revision)
		if err != nil {
			return answer{}, err
		}
	}
	a := answer{revision: revision, at: time.Now()}
	if a.route, err = codec.Decode[mesh.Route](value); err != nil {
		return answer{}, fmt.Errorf("gateway: read route: %w", err)
	}
	return a, nil
}

// reread asks linearizably for a name that a server did not have at revision.
// If that fails, the name counts as gone only when the server was at least as
// new as the last answer: an empty store never replaces a full one unconfirmed.
func (c *Client) reread(ctx context.Context, s *server, name mesh.ServerName, revision int64) ([]byte, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PerTry)
	defer cancel()
	value, newer, err := c.read(ctx, s, RouteKey(name), false)
	switch last, known := c.memory.get(name); {
	case err == nil && value != nil:
		return value, newer, nil
	case err == nil, known && last.revision <= revision:
		return nil, 0, fmt.Errorf("gateway: look up route: %w", mesh.ErrNotFound)
	}
	return nil, 0, fmt.Errorf("gateway: confirm that there is no route: %w: %w", err, mesh.ErrUnavailable)
}

// targets returns those of a route's hops: watched ones as they are known, the
// others as a server has them.
func (c *Client) targets(ctx context.Context, r mesh.Route) (map[string]mesh.Target, error) {
	found, others := c.table.current(hopIDs(r))
	for ids := range slices.Chunk(others, MaxTxnReads) {
		if err := c.fetch(ctx, ids, true, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fetch reads targets in one transaction, tells the table and adds those that
// exist to found.
func (c *Client) fetch(ctx context.Context, ids []string, asked bool, found map[string]mesh.Target) error {
	txn := &pb.TxnRequest{}
	for _, id := range ids {
		read := &pb.RangeRequest{Key: []byte(TargetKey(id)), Serializable: true}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: read}})
	}
	var r *pb.TxnResponse
	err := c.try(ctx, func(ctx context.Context, s *server) (err error) {
		var trailer metadata.MD
		r, err = s.kv.Txn(ctx, txn, grpc.Trailer(&trailer))
		c.noteLeader(trailer)
		return err
	})
	if err != nil {
		return err
	}
	if len(r.Responses) != len(ids) {
		return fmt.Errorf("gateway: read targets: %w", errors.New("the server answered another question"))
	}
	for i, id := range ids {
		kvs := r.Responses[i].GetResponseRange().GetKvs()
		if len(kvs) == 0 {
			c.table.learn(id, mesh.Target{}, false, r.GetHeader().GetRevision(), asked)
			continue
		}
		t, err := codec.Decode[mesh.Target](kvs[0].Value)
		if err != nil {
			return fmt.Errorf("gateway: read target %s: %w", id, err)
		}
		c.table.learn(id, t, true, r.GetHeader().GetRevision(), asked)
		found[id] = t
	}
	return nil
}
