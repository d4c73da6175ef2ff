package mgmt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/health"
	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/mgmt/alerts"
	"github.com/meshctl/meshctl/pkg/mgmt/backups"
	"github.com/meshctl/meshctl/pkg/mgmt/bots"
	"github.com/meshctl/meshctl/pkg/mgmt/certs"
	"github.com/meshctl/meshctl/pkg/mgmt/kubes"
	"github.com/meshctl/meshctl/pkg/mgmt/nodes"
	"github.com/meshctl/meshctl/pkg/mgmt/subs"
	"github.com/meshctl/meshctl/pkg/store"
)

// runtime is one run of a Server. Each part sets its fields before the next
// one starts, and nothing changes them afterwards.
type runtime struct {
	srv        *Server
	log        *slog.Logger
	now        func() time.Time
	started    time.Time
	folder     *folder
	keys       *keys
	ports      *listeners
	advertised []string
	registry   *prometheus.Registry
	metrics    *metrics
	serving    atomic.Bool

	etcd      *etcdPart
	store     *store.Store
	authority *ca.Authority
	self      *self
	config    *store.Mirror[string, mesh.Config]
	revs      *identity.Revocations
	nodes     *nodes.Service
	cluster   *cluster
	conveyor  *conveyor
	grpc      *grpc.Server
	access    access
	foreman   chores.Foreman // of the child process
	backups   *backups.Service
	bots      *bots.Service
	telegram  bots.Connection
	admin     adminsvc.Service
	certs     *certs.Service // that clients see
	alerts    *alerts.Service
	hooks     *alerts.Hooks
	subs      subs.Service // that tells clients what they may connect to
	kubes     *kubes.Service
	// superseded gets the root's word for a later epoch than the state's.
	superseded chan mesh.SignedEpoch
}

func newRuntime(s *Server, f *folder, k *keys, ports *listeners) (*runtime, error) {
	r := &runtime{
		srv: s, log: s.Log, now: time.Now, started: time.Now().UTC(), folder: f, keys: k, ports: ports,
		advertised: advertised(s.Config, ports),
		registry:   s.Registry,
		conveyor:   newConveyor(),
		superseded: make(chan mesh.SignedEpoch, 1),
		access:     newAccess(ports.gateway != nil, ports.admin != nil),
	}
	if r.registry == nil {
		r.registry = prometheus.NewRegistry()
	}
	var err error
	if r.metrics, err = newMetrics(r.registry); err != nil {
		return nil, fmt.Errorf("mgmt: register metrics: %w", err)
	}
	r.etcd, err = newEtcdPart(s.Config, f, k, s.Log, r.now)
	r.cluster = newCluster(r)
	return r, err
}

func (r *runtime) close() {
	r.ports.close()
	r.folder.close()
}

// advertised are the addresses others learn; a port that the system chose is
// filled in.
func advertised(c Config, l *listeners) []string {
	if len(c.MeshAddresses) > 0 {
		return c.MeshAddresses
	}
	return []string{l.mesh.Addr().String()}
}

// units are the parts in the order of starting. Calls are served by "grpc",
// which starts before the ports that feed it and stops after the goodbyes.
func (r *runtime) units(ready func()) []supervise.Unit {
	units := []supervise.Unit{
		{Name: "etcd", Run: r.etcd.run},
		{Name: "store", Run: r.runStore},
		{Name: "servers", Run: r.runCluster},
		{Name: "ca", Run: r.runCA},
		{Name: "certs", Run: r.runCerts},
		{Name: "grpc", Run: r.runGRPC},
		{Name: "nodes", Run: r.runNodes},
		{Name: "epoch", Run: supervise.Always(r.runEpoch)},
		{Name: "subscription", Run: r.runSubscription},
		{Name: "ports", Run: r.runPorts},
		{Name: "socket", Run: r.runSocket},
		{Name: "serving", Run: func(ctx context.Context, up func()) error { return r.serve(ctx, func() { up(); ready() }) }},
		{Name: "alerts", Run: supervise.Always(r.runAlerts)},
		{Name: "kubes", Run: supervise.Always(r.runKubes)},
		{Name: "chores", Run: supervise.Always(r.foreman.Run)},
	}
	if r.ports.metrics == nil {
		return units
	}
	h := &health.Server{Ready: r.ready, Gather: prometheus.Gatherers{r.registry, prometheus.DefaultGatherer}, Log: r.log}
	first := supervise.Unit{Name: "health", Run: supervise.Always(func(ctx context.Context) error { return h.Serve(ctx, r.ports.metrics) })}
	return append([]supervise.Unit{first}, units...)
}

// serve says that all is there, for as long as it is.
func (r *runtime) serve(ctx context.Context, ready func()) error {
	for _, g := range r.gauges() {
		if err := r.registry.Register(g); err != nil {
			return fmt.Errorf("mgmt: register metrics: %w", err)
		}
	}
	r.serving.Store(true)
	defer r.serving.Store(false)
	r.announce()
	ready()
	<-ctx.Done()
	return nil
}

func (r *runtime) ready(context.Context) error {
	if !r.serving.Load() {
		return errors.New("starting or stopping")
	}
	return nil
}

func (r *runtime) announce() {
	a := Addresses{Mesh: r.ports.mesh.Addr().String(), Socket: r.srv.Config.Socket()}
	if l := r.ports.admin; l != nil {
		a.Admin = l.Addr().String()
	}
	if l := r.ports.gateway; l != nil {
		a.Gateway = l.Addr().String()
	}
	if l := r.ports.metrics; l != nil {
		a.Metrics = l.Addr().String()
	}
	r.log.Info("serving", "node", r.self.id.Node(), "addr", a.Mesh)
	if r.srv.Up != nil {
		r.srv.Up(a)
	}
}

// runStore opens the store and makes sure that etcd holds this mesh.
func (r *runtime) runStore(ctx context.Context, ready func()) error {
	endpoints, conf, err := r.etcd.client()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Config{Endpoints: endpoints, TLS: conf, DataKeys: r.keys.data, Log: r.log})
	if err != nil {
		return err
	}
	r.store = st
	if err := r.etcd.vote(ctx); err != nil {
		return errors.Join(err, st.Close())
	}
	err = st.Whole(ctx)
	if err == nil {
		err = settle(ctx, st, r.folder, r.keys, r.srv.Config.Founding.config(r.advertised), r.log)
	}
	if err == nil {
		err = mendSealed(ctx, st, r.folder, r.keys, r.log)
	}
	if err == nil {
		err = r.cluster.followRekey(ctx)
	}
	if err == nil {
		ready()
		<-ctx.Done()
	}
	return errors.Join(err, st.Close())
}

// runCluster keeps this server and the others together.
func (r *runtime) runCluster(ctx context.Context, ready func()) error {
	if r.keys.forming != nil && r.keys.forming.founds() && r.srv.BootstrapSecret != nil {
		secret, err := r.srv.secret(ctx)
		if err != nil {
			return err
		}
		r.cluster.secret = secret
	}
	return r.cluster.run(ctx, ready)
}

// runCA starts the authority, and keeps this server's own certificate and the
// housekeeping.
func (r *runtime) runCA(ctx context.Context, ready func()) error {
	if err := r.openCA(ctx); err != nil {
		return err
	}
	k := &keeper{store: r.store, server: r.keys.Server, etcd: r.etcd, own: r.certificates, sign: r.authority.SignRevocation, log: r.log, now: r.now}
	r.config = store.NewMirror(r.store.Config)
	return together(ctx, r.config.Run, r.self.run, k.run, func(ctx context.Context) error {
		if err := r.config.Synced(ctx); err != nil {
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	})
}

func (r *runtime) openCA(ctx context.Context) (err error) {
	r.authority, err = ca.New(ca.Config{
		Mesh: r.keys.Mesh, Server: r.keys.Server, Root: r.keys.root, Intermediate: r.keys.intermediate,
		Key: r.keys.key, Records: r.store, Log: r.log,
	})
	if err != nil {
		return setup(err)
	}
	folder, err := identity.OpenFolder(r.folder.path(dirNode))
	if err != nil {
		return setup(err)
	}
	r.self = &self{
		id:     mesh.Identity{Mesh: r.keys.Mesh, Role: mesh.RoleMgmt, ID: string(r.keys.Server)},
		folder: folder, ca: r.authority, store: r.store, log: r.log, now: r.now,
	}
	if err := r.self.ensure(ctx); err != nil {
		return err
	}
	if err := r.folder.markFounded(r.now()); err != nil {
		return err
	}
	// In memory: this server has the records themselves.
	r.revs, err = identity.OpenRevocations("", r.self.node.Roots(), r.keys.Mesh)
	return err
}

func (r *runtime) rootHash() [32]byte { return sha256.Sum256(r.keys.root.Raw) }
