package mgmt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// etcdPart is the etcd member of this server.
type etcdPart struct {
	member *embedded.Member
	*etcdKeeper
}

// newEtcdPart makes etcd's certificates anew: a server that was off for long
// starts without anybody's help.
func newEtcdPart(c Config, f *folder, k *keys, log *slog.Logger, now func() time.Time) (*etcdPart, error) {
	k.etcd.Life = c.Etcd.CertLife
	keeper := &etcdKeeper{authority: k.etcd, conf: c.Etcd, log: log.With("unit", "etcd"), now: now}
	material, err := keeper.make()
	if err != nil {
		return nil, err
	}
	return &etcdPart{etcdKeeper: keeper, member: &embedded.Member{
		Dir:       f.path(dirEtcd),
		TLSDir:    f.path(dirEtcdTLS),
		Name:      string(k.Server),
		PeerURL:   "https://" + c.Etcd.PeerListen,
		ClientURL: "https://" + c.Etcd.ClientListen,
		TLS:       material,
		Token:     string(k.Mesh),
		Cluster:   k.cluster,
		Existing:  k.cluster != "",
		Quota:     c.Etcd.Quota,
		Heartbeat: c.Etcd.Heartbeat,
		Election:  c.Etcd.Election,
		Log:       keeper.log,
	}}, nil
}

// errGone stops a server that is no longer one of the mesh's.
var errGone = setupf("to bring this machine back, empty its data folder and let it in anew: meshctl admin mgmt add NAME", "this server was removed from the mesh")

// voteTick is how often a server that is being let in looks for its vote.
const voteTick = 100 * time.Millisecond

// vote waits until the member has a vote; before, it answers nothing.
func (e *etcdPart) vote(ctx context.Context) error {
	tick := time.NewTicker(voteTick)
	defer tick.Stop()
	for {
		if s, err := e.member.Status(); err != nil || !s.Learner {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// run is the member's Run. Before it is ready, what stops it stops it again at
// the next try, but for a port in use.
func (e *etcdPart) run(ctx context.Context, ready func()) error {
	up := false
	err := together(ctx,
		func(ctx context.Context) error { return e.member.Run(ctx, func() { up = true; ready() }) },
		func(ctx context.Context) error { return e.keep(ctx, e.member.Renew) })
	switch {
	case errors.Is(err, embedded.ErrRemoved):
		return errGone
	case err == nil || up || errors.Is(err, syscall.ENOSPC):
		return err // others may make room again
	case e.member.Existing && mesh.Kind(err) == nil:
		return mesh.WithHint(fmt.Errorf("mgmt: join the other servers: %w: %w", err, mesh.ErrUnavailable), "start it again; it asks to be let in again")
	case errors.Is(err, syscall.EADDRINUSE):
		return mesh.WithHint(fmt.Errorf("%w: %w", err, mesh.ErrUnavailable),
			"find who has the port with `ss -ltnp`, or set etcd.client-listen and etcd.peer-listen to other ports")
	}
	return setup(err)
}

func (e *etcdPart) client() ([]string, *tls.Config, error) { return e.member.ClientConfig() }

// status asks the member in this process; it answers without a quorum too.
func (e *etcdPart) status() (admin.EtcdStatus, error) {
	s, err := e.member.Status()
	return admin.EtcdStatus{
		Member: s.Member, Leader: s.Leader, Revision: s.Revision, Bytes: s.Bytes, BytesUsed: s.Used,
		Quota: s.Quota, Alarms: s.Alarms, Members: s.Members,
	}, err
}
