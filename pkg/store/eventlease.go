package store

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// eventLeaseLife is how long etcd keeps the events of a day by itself: a day
	// longer than Trim does, which is what removes them when all is well. A new
	// leader of etcd begins every lease anew.
	eventLeaseLife = 31 * 24 * time.Hour
	// eventLeaseBase sets the leases of events apart from those that etcd numbers.
	eventLeaseBase = 0x6d657368_00000000
)

// eventLease is the lease of the events of a day, the same for all servers. It is
// asked for when the first event of the day is written here.
func (s *Store) eventLease(ctx context.Context, now time.Time) (clientv3.LeaseID, error) {
	id := clientv3.LeaseID(eventLeaseBase + now.Unix()/int64(24*time.Hour/time.Second))
	if s.eventsUnder.Load() == int64(id) {
		return id, nil
	}
	err := s.retry(ctx, func(ctx context.Context) error {
		req := &pb.LeaseGrantRequest{ID: int64(id), TTL: int64(eventLeaseLife / time.Second)}
		_, err := pb.NewLeaseClient(s.client.ActiveConnection()).LeaseGrant(ctx, req)
		if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseExist) {
			return nil // another server was first
		}
		return err
	})
	if err != nil {
		return 0, wrap("have a lease for events", err)
	}
	s.eventsUnder.Store(int64(id))
	return id, nil
}
