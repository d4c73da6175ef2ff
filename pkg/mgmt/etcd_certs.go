package mgmt

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// etcdKeeper makes the certificates of this server's etcd, and makes them anew
// before they end. It needs nobody for that, and no quorum.
type etcdKeeper struct {
	authority *ca.EtcdCA
	conf      Etcd
	log       *slog.Logger
	now       func() time.Time

	ends atomic.Pointer[time.Time] // of what was made last
}

// etcdAtOnce bounds how often certificates are made: what a CA near its own end
// issues is due at once.
const etcdAtOnce = time.Minute

// keep hands new certificates to renew from two thirds of their life on, until
// ctx ends.
func (k *etcdKeeper) keep(ctx context.Context, renew func(embedded.Material) error) error {
	for {
		floor := min(etcdAtOnce, k.conf.CertLife/6)
		t := time.NewTimer(max(k.due(rand.Float64()).Sub(k.now()), floor))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		before := k.ends.Load()
		m, err := k.make()
		if err == nil {
			err = renew(m)
		}
		if err != nil {
			k.ends.Store(before)
			k.log.Warn("certificates of etcd not renewed", "err", err, "ends", *before)
			continue
		}
		k.log.Info("certificates of etcd renewed", "ends", *k.ends.Load())
	}
}

// due is when they are made anew: with a third to a sixth of the life left, as
// jitter says between 0 and 1.
func (k *etcdKeeper) due(jitter float64) time.Time {
	life := float64(k.conf.CertLife)
	return k.ends.Load().Add(-time.Duration(life/3 - jitter*life/6))
}

// make issues all that the member and this process prove themselves with.
func (k *etcdKeeper) make() (embedded.Material, error) {
	m := embedded.Material{CA: ca.MarshalCert(k.authority.Cert())}
	peer, _, err := net.SplitHostPort(k.conf.PeerListen)
	client, _, err2 := net.SplitHostPort(k.conf.ClientListen) // another address of loopback, perhaps
	if err := errors.Join(err, err2); err != nil {
		return m, err
	}
	for _, x := range []struct {
		use   ca.EtcdUse
		name  string
		hosts []string
		to    *embedded.Pair
	}{
		{ca.EtcdServer, embedded.ServerName, []string{"127.0.0.1", "::1", "localhost", client}, &m.Server},
		{ca.EtcdPeer, embedded.PeerName, []string{peer}, &m.Peer},
		{ca.EtcdClient, embedded.ClientName, nil, &m.Client},
	} {
		pair, err := k.authority.Issue(x.use, x.name, x.hosts, k.now())
		if err != nil {
			return m, err
		}
		leaf, err := ca.ParseCert(pair.Cert)
		if err != nil {
			return m, err
		}
		*x.to = embedded.Pair{Cert: pair.Cert, Key: pair.Key}
		k.ends.Store(&leaf.NotAfter)
	}
	return m, nil
}
