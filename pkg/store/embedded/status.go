package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Status is what the member knows of itself, without asking others: it is told
// also while there is no leader.
type Status struct {
	Member   string   // hexadecimal, as etcdctl prints it
	Leader   string   // "" while there is none
	Learner  bool     // does not vote yet
	Revision int64    // of the state
	Bytes    int64    // of the database file
	Used     int64    // of them in use; the rest is given back by RecoverSpace
	Quota    int64    // at which changes are refused
	Alarms   []string // NOSPACE: changes are refused until RecoverSpace
	Members  int
	Version  string // of etcd
}

// Status returns ErrUnavailable when the member does not run.
func (m *Member) Status() (Status, error) {
	e, err := m.running()
	if err != nil {
		return Status{}, err
	}
	srv := e.Server
	st := Status{
		Member:   srv.MemberID().String(),
		Learner:  srv.IsLearner(),
		Revision: srv.KV().Rev(),
		Bytes:    srv.Backend().Size(),
		Used:     srv.Backend().SizeInUse(),
		Quota:    srv.Cfg.QuotaBackendBytes,
		Alarms:   alarmNames(srv.Alarms()),
		Members:  len(srv.Cluster().Members()),
	}
	if v := srv.ClusterVersion(); v != nil {
		st.Version = v.String()
	}
	if lead := srv.Leader(); lead != 0 {
		st.Leader = lead.String()
	}
	return st, nil
}

// HasLeader says whether the member knows a leader. It costs nothing: lookups ask
// it each time.
func (m *Member) HasLeader() bool {
	e, err := m.running()
	return err == nil && e.Server.Leader() != 0
}

func alarmNames(alarms []*pb.AlarmMember) []string {
	var out []string
	for _, a := range alarms {
		out = append(out, a.Alarm.String())
	}
	return out
}

// recoverLimit bounds the defragmentation of a database of the usual quota.
const recoverLimit = 5 * time.Minute

// RecoverSpace makes room when the quota was reached: it drops all old
// revisions, gives the file's free pages back, during which this member does not
// answer, and disarms the alarm. In a cluster call it on one member at a time.
func (m *Member) RecoverSpace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	e, err := m.running()
	if err != nil {
		return err
	}
	endpoints, conf, err := m.ClientConfig()
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: conf, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("embedded: recover space: %w", err)
	}
	defer c.Close() // nothing to learn from it
	if err := recoverSpace(ctx, c, endpoints[0], e.Server.KV().Rev()); err != nil {
		return fmt.Errorf("embedded: recover space: %v: %w", err, mesh.ErrUnavailable)
	}
	return nil
}

func recoverSpace(ctx context.Context, c *clientv3.Client, endpoint string, rev int64) error {
	if _, err := c.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil && !alreadyCompacted(err) {
		return err
	}
	if _, err := c.Defragment(ctx, endpoint); err != nil {
		return err
	}
	alarms, err := c.AlarmList(ctx)
	if err != nil {
		return err
	}
	for _, a := range alarms.Alarms {
		if a.Alarm == pb.AlarmType_NOSPACE {
			if _, err := c.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
				return err
			}
		}
	}
	return nil
}

func alreadyCompacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }
