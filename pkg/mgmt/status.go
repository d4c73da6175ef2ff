package mgmt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/store"
)

// statusTime bounds each thing that status looks at.
const statusTime = 1500 * time.Millisecond

// certNode is what status calls the server's own certificate.
const certNode = "node"

// status describes this server. What cannot be read is left out and named in
// Problems, so that the answer comes, and soon, whatever is down.
func (r *runtime) status(ctx context.Context) (admin.ServerStatus, error) {
	s := admin.ServerStatus{
		Server:       r.keys.Server,
		Name:         r.cluster.name(),
		Version:      r.srv.Version,
		Started:      r.started,
		Certificates: r.certificates(),
		Nodes:        r.nodes.Connected(),
		Servers:      r.cluster.lines(),
	}
	problem := func(format string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(format, args...)) }

	etcd, err := r.etcd.status()
	if err != nil {
		problem("etcd: %v", err)
	}
	s.Etcd = etcd
	s.HighlyAvailable, s.Availability = available(s.Servers)
	if err == nil && etcd.Leader == "" {
		problem("etcd: no leader: changes are refused, lookups go on")
	}
	for _, a := range etcd.Alarms {
		mend := ""
		if a == noSpace {
			mend = "; raise etcd.quota and start the server again"
		}
		problem("etcd: alarm %s: changes are refused until it is lifted%s", a, mend)
	}
	if etcd.Quota > 0 && float64(etcd.Bytes) >= nearlyFull*float64(etcd.Quota) {
		problem("etcd: its file has %d %% of etcd.quota; at the quota changes are refused", 100*etcd.Bytes/etcd.Quota)
	}
	r.judgeStore(ctx, problem)
	s.Aux = r.auxStatus(ctx, problem)
	r.judgeBackups(ctx, problem)
	r.judgeBot(ctx, problem)
	for _, p := range slices.Concat(r.certs.Problems(), r.kubes.Problems()) {
		problem("%s", p)
	}
	for _, c := range s.Certificates {
		if left := c.Ends.Sub(r.now()); left <= 0 {
			problem("certificate %s has ended", c.What)
		} else if c.What != certNode && left < warnCA {
			problem("certificate %s ends in %d days", c.What, int(left.Hours()/24))
		}
	}
	return s, nil
}

func (r *runtime) judgeStore(ctx context.Context, problem func(string, ...any)) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	cfg, err := r.store.Config.Get(ctx, store.ConfigKey)
	if err != nil {
		problem("store: %v", err)
		return
	}
	if _, err := identity.EpochOf(r.keys.roots(), r.keys.Mesh, cfg.Value); err != nil {
		problem("the epoch in the state is not the root's: %v; somebody has changed it without the root passphrase", err)
	}
	if cfg.Value.Restored.Collecting() {
		problem("the mesh was restored from a backup and serves nobody yet: it waits, at most %v, for the revocations that its nodes keep; heard from %s",
			cfg.Value.Restored.Wait(), r.nodes.Heard())
	}
	for _, a := range r.advertised {
		if !slices.Contains(cfg.Value.MgmtAddresses, a) {
			problem("address %s is not among those that nodes learn (mgmtAddresses): meshctl admin config set", a)
		}
	}
}

// certificates are the ends of everything this server lives by.
func (r *runtime) certificates() []admin.CertEnd {
	return []admin.CertEnd{
		{What: certNode, Ends: r.self.node.Leaf().NotAfter},
		{What: "intermediate", Ends: r.keys.intermediate.NotAfter},
		{What: "root", Ends: r.keys.root.NotAfter},
		{What: "etcd", Ends: *r.etcd.ends.Load()},
		{What: "etcd CA", Ends: r.keys.etcd.Cert().NotAfter},
	}
}
