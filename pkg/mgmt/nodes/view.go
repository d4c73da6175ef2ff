package nodes

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// view mirrors what the loops decide by.
type view struct {
	members     *store.Mirror[mesh.MemberID, mesh.Member]
	devices     *store.Mirror[mesh.DeviceID, mesh.Device]
	cells       *store.Mirror[mesh.CellID, mesh.Cell]
	cores       *store.Mirror[mesh.CoreID, mesh.Core]
	entries     *store.Mirror[mesh.EntryID, mesh.Entry]
	revocations *store.Mirror[string, mesh.SignedRevocation]
	config      *store.Mirror[string, mesh.Config]
	status      *store.Mirror[string, mesh.NodeStatus]
	routes      *store.Mirror[mesh.ServerName, mesh.Route]
	targets     *store.Mirror[string, mesh.Target]
	rollouts    *store.Mirror[string, mesh.Rollout]
	spent       *store.Mirror[string, mesh.Spent]
	servers     *store.Mirror[mesh.ServerID, mesh.Server]
	reach       *store.Mirror[mesh.EntryID, mesh.EntryReach]
	cellWatch   *store.Mirror[mesh.CellID, mesh.CellWatch]
	kubes       *store.Mirror[mesh.KubeID, mesh.KubeCluster]
	kubeStates  *store.Mirror[mesh.KubeID, mesh.KubeState]
}

func newView(s *store.Store) *view {
	return &view{
		members:     store.NewMirror(s.Members),
		devices:     store.NewMirror(s.Devices),
		cells:       store.NewMirror(s.Cells),
		cores:       store.NewMirror(s.Cores),
		entries:     store.NewMirror(s.Entries),
		revocations: store.NewMirror(s.Revocations),
		config:      store.NewMirror(s.Config),
		status:      store.NewMirror(s.Status),
		routes:      store.NewMirror(s.Routes),
		targets:     store.NewMirror(s.Targets),
		rollouts:    store.NewMirror(s.Rollouts),
		spent:       store.NewMirror(s.Spent),
		servers:     store.NewMirror(s.Servers),
		reach:       store.NewMirror(s.Reach),
		cellWatch:   store.NewMirror(s.CellWatch),
		kubes:       store.NewMirror(s.Kubes),
		kubeStates:  store.NewMirror(s.KubeStates),
	}
}

// mirror is what all of them have in common.
type mirror interface {
	Run(context.Context) error
	Synced(context.Context) error
	Changed() <-chan struct{}
}

func (v *view) all() []mirror {
	return []mirror{v.members, v.devices, v.cells, v.cores, v.entries, v.revocations, v.config, v.status, v.routes, v.targets, v.rollouts, v.spent, v.servers, v.reach, v.cellWatch, v.kubes, v.kubeStates}
}

// run follows the store until ctx ends.
func (v *view) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range v.all() {
		g.Go(func() error { return m.Run(ctx) })
	}
	return g.Wait()
}

// synced waits until everything has been listed once.
func (v *view) synced(ctx context.Context) error {
	for _, m := range v.all() {
		if err := m.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow nudges at every change of m until ctx ends.
func follow(ctx context.Context, m mirror, wake ...signal) {
	for {
		changed := m.Changed()
		for _, w := range wake {
			w.nudge()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
