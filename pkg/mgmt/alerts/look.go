package alerts

import (
	"context"
	"errors"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// look is what one leader looks at.
type look struct {
	*Service
	events   *window
	cores    *store.Mirror[mesh.CoreID, mesh.Core]
	cells    *store.Mirror[mesh.CellID, mesh.Cell]
	entries  *store.Mirror[mesh.EntryID, mesh.Entry]
	status   *store.Mirror[string, mesh.NodeStatus]
	rollouts *store.Mirror[string, mesh.Rollout]
	hooks    *store.Mirror[string, mesh.Webhook]
	states   *store.Mirror[string, mesh.HookState]
	config   *store.Mirror[string, mesh.Config]

	kubes      *store.Mirror[mesh.KubeID, mesh.KubeCluster]
	kubeStates *store.Mirror[mesh.KubeID, mesh.KubeState]

	ends     []alert.Condition // as read last
	endsRead time.Time
}

func newLook(s *Service) *look {
	st := s.Store
	return &look{
		Service: s, events: newWindow(st, s.now),
		cores: store.NewMirror(st.Cores), cells: store.NewMirror(st.Cells), entries: store.NewMirror(st.Entries),
		status: store.NewMirror(st.Status), rollouts: store.NewMirror(st.Rollouts),
		hooks: store.NewMirror(st.Hooks), states: store.NewMirror(st.HookStates), config: store.NewMirror(st.Config),
		kubes: store.NewMirror(st.Kubes), kubeStates: store.NewMirror(st.KubeStates),
	}
}

func (l *look) mirrors() []func(context.Context) error {
	return []func(context.Context) error{l.cores.Run, l.cells.Run, l.entries.Run, l.status.Run, l.rollouts.Run, l.hooks.Run, l.states.Run, l.config.Run, l.kubes.Run, l.kubeStates.Run}
}

func (l *look) synced(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{
		l.alerts.Synced, l.cores.Synced, l.cells.Synced, l.entries.Synced, l.status.Synced, l.rollouts.Synced, l.hooks.Synced, l.states.Synced, l.config.Synced,
		l.kubes.Synced, l.kubeStates.Synced,
	} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step brings the alerts to what is the case now, and hands events on.
func (l *look) step(ctx context.Context) error {
	if err := l.synced(ctx); err != nil {
		return err
	}
	items, rev, ok := l.events.all()
	if !ok {
		return nil
	}
	cfg, _ := l.config.Get(store.ConfigKey)
	now, have := l.now(), l.Service.alerts.All()
	book := alert.NewBook(cfg.Alerts)
	in := l.state(ctx, now)
	in.Conditions = append(in.Conditions, l.kubeConditions(now)...)
	events := make([]mesh.Event, len(items))
	for i, it := range items {
		events[i] = it.Value
	}
	in.Conditions = append(in.Conditions, l.existing(book.FromEvents(events, have, now))...)
	return errors.Join(l.write(ctx, have, book.Step(have, in, now)), l.forward(ctx, items, rev))
}

// existing leaves out what is about nodes and cells that are no longer there: nobody
// says of them that anything is over.
func (l *look) existing(in []alert.Condition) []alert.Condition {
	var out []alert.Condition
	for _, c := range in {
		kind, id := split(c.Object)
		gone := false
		switch kind {
		case "core":
			v, ok := l.cores.Get(mesh.CoreID(id))
			gone = !ok || v.Revoked
		case "entry":
			v, ok := l.entries.Get(mesh.EntryID(id))
			gone = !ok || v.Revoked
		case "cell":
			v, ok := l.cells.Get(mesh.CellID(id))
			gone = !ok || v.State == mesh.CellRetired
		}
		if !gone {
			out = append(out, c)
		}
	}
	return out
}
