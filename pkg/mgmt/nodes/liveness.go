package nodes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// statusBatch is how many statuses one transaction writes.
const statusBatch = 40

// flushStatus is one pass that writes what is known of nodes: of those about
// which something changed, and on a full pass of all that are connected.
func (s *Service) flushStatus(ctx context.Context, full bool) (time.Time, error) {
	if full {
		for _, se := range s.hub.all() {
			s.hub.changed(se.node)
		}
	}
	list := s.hub.takeUnsaved()
	var errs []error
	for chunk := range slices.Chunk(list, statusBatch) {
		if err := s.writeStatus(ctx, chunk); err != nil {
			s.hub.restore(chunk)
			errs = append(errs, err)
		}
	}
	if len(list) > 0 {
		s.wakes.judge.nudge()
	}
	return time.Time{}, errors.Join(errs...)
}

// writeStatus writes statuses of nodes that were or are connected here. Where
// another server has the node by now, its word stands, and a stream that is
// still open here is ended.
func (s *Service) writeStatus(ctx context.Context, list []mesh.NodeStatus) error {
	var lost []mesh.NodeStatus
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		lost = nil
		for _, st := range list {
			old, err := store.Get(tx, s.Store.Status, st.Node)
			switch {
			case errors.Is(err, mesh.ErrNotFound):
				err = store.Create(tx, s.Store.Status, st.Node, st)
			case err != nil:
			case !st.Connected && old.Server != st.Server:
				continue // it is connected elsewhere by now
			case s.elsewhere(old, helloOf(st)) != nil:
				lost = append(lost, old)
				continue
			default:
				err = store.Update(tx, s.Store.Status, st.Node, func(n *mesh.NodeStatus) error {
					*n = merge(*n, st)
					return nil
				})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.yield(lost)
	}
	return err
}

// helloOf is what of a node's hello is in its status.
func helloOf(st mesh.NodeStatus) *controlpb.Hello {
	return &controlpb.Hello{Instance: st.Instance, Boot: st.Boot, Start: st.Start}
}

// merge keeps the device table that was acknowledged on an earlier stream: the
// core has it still, and says otherwise by acknowledging another. What a pod found
// of its network stays so until it has tried again.
func merge(old, st mesh.NodeStatus) mesh.NodeStatus {
	if st.DevicesRev == 0 {
		st.DevicesRev = old.DevicesRev
	}
	st.Policy = cmp.Or(st.Policy, old.Policy)
	return st
}

// observation is what decides about a core beside what the store says of it.
type observation struct {
	mesh.Liveness
	session *session // nil: its stream is not here
}

// observe is what is known of a core whose stream is here.
func observe(se *session) observation {
	d := se.dialled()
	return observation{session: se, Liveness: mesh.Liveness{Connected: true, LastSeen: time.Now(), Dialled: d.ok, Failure: d.failure}}
}

// decide returns what the core should be.
func (o observation) decide(c mesh.Core, now time.Time, limit time.Duration) mesh.Core {
	state, reason := c.Next(o.Liveness, now, limit)
	if state == mesh.CoreLost && c.State == mesh.CoreLost {
		reason = c.Reason // since when is known better by who saw it
	}
	c.State, c.Reason = state, reason
	if o.session == nil {
		return c
	}
	c.Version, c.Egress = o.session.hello.GetVersion(), o.session.egress
	if d := o.session.dialled(); d.ok {
		// Only what was proven replaces what was proven before.
		c.Addresses = d.addrs
	}
	if c.State == mesh.CoreReady {
		c.EverReady = true
	}
	return c
}
