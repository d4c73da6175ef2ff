package mgmt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// rekeyAskTime bounds one question to one address of a server.
	rekeyAskTime = 3 * time.Second
	// rekeyBatch is how many values one call seals anew, so that it ends in time.
	rekeyBatch = 256
	// rekeySettle is how long sealing lasts at least: longer than a transaction
	// whose server died may still be on its way.
	rekeySettle = 6 * time.Second
)

// Rekey implements adminsvc.Servers: one step, and what comes next. Two who ask
// at once do no harm: each change compares the state it was made for.
func (s serversOf) Rekey(ctx context.Context, by store.By) (admin.RekeyProgress, error) {
	p, err := s.rekey(ctx, by)
	if errors.Is(err, errAgain) {
		err = nil // another took the step
	}
	return p, err
}

func (c *cluster) rekey(ctx context.Context, by store.By) (admin.RekeyProgress, error) {
	state, err := c.rekeyState(ctx)
	if err != nil {
		return admin.RekeyProgress{}, err
	}
	p := admin.RekeyProgress{Key: state.To}
	if err := c.followRekey(ctx); err != nil {
		return p, err
	}
	switch state.Step {
	case rekeyHanding:
		return c.handKey(ctx, by, state, p)
	case rekeySealing:
		return c.sealAnew(ctx, by, state, p)
	case rekeyDropping:
		return c.dropKey(ctx, by, state, p)
	case rekeyDone, "":
	}
	if p.Servers, err = c.askAll(ctx, nil, nil); err != nil {
		return p, err
	}
	return c.handKey(ctx, by, state, p)
}

// handKey makes the new key, unless this server has it, and hands it to all. One
// that nobody was told of, or only some, has sealed nothing: another replaces it.
func (c *cluster) handKey(ctx context.Context, by store.By, state rekeyState, p admin.RekeyProgress) (admin.RekeyProgress, error) {
	keys := c.r.store.DataKeys()
	if !state.underWay() || len(keys) < 2 {
		key := store.NewDataKey()
		next := rekeyState{From: store.DataKeyID(keys[0]), To: store.DataKeyID(key), Step: rekeyHanding, Since: c.r.now().UTC()}
		if err := c.putRekey(ctx, by, state, next, c.nobodyJoins); err != nil {
			return p, err
		}
		if err := c.followRekey(ctx, key); err != nil {
			return p, err
		}
		state, keys, p.Key = next, c.r.store.DataKeys(), next.To
		if len(keys) < 2 {
			return p, errAgain
		}
	}
	var err error
	p.Doing = "sealing every secret anew"
	if p.Servers, err = c.askAll(ctx, keys[1][:], []string{state.From, state.To}); err != nil {
		return p, err
	}
	next := state
	next.Step, next.Since = rekeySealing, c.r.now().UTC()
	return p, c.putRekey(ctx, by, state, next)
}

// nobodyJoins: a server on its way in would be handed the old key.
func (c *cluster) nobodyJoins(tx *store.Tx) error {
	all, err := store.List(tx, c.r.store.Servers)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State == mesh.ServerJoining {
			return mesh.WithHint(fmt.Errorf("mgmt: replace data key: server %q is being let in: %w", s.Name, mesh.ErrConflict),
				"wait until it is a member, or remove it: meshctl admin mgmt remove "+string(s.ID))
		}
	}
	return nil
}

func (c *cluster) sealAnew(ctx context.Context, by store.By, state rekeyState, p admin.RekeyProgress) (admin.RekeyProgress, error) {
	var err error
	p.Doing = "sealing every secret anew"
	if p.Servers, err = c.askAll(ctx, nil, []string{state.To, state.From}); err != nil {
		return p, err
	}
	settled := c.r.now().Sub(state.Since) > rekeySettle
	p.Sealed, err = c.r.store.Reseal(ctx, by, rekeyBatch, func(tx *store.Tx) error { return c.stillAt(tx, state) })
	if err != nil || p.Sealed > 0 || !settled {
		return p, err
	}
	p.Doing = "dropping the old key"
	next := state
	next.Step, next.Since = rekeyDropping, c.r.now().UTC()
	return p, c.putRekey(ctx, by, state, next)
}

func (c *cluster) dropKey(ctx context.Context, by store.By, state rekeyState, p admin.RekeyProgress) (admin.RekeyProgress, error) {
	var err error
	p.Doing = "dropping the old key"
	if p.Servers, err = c.askAll(ctx, nil, []string{state.To}); err != nil {
		return p, err
	}
	// What the old key opens is still there in what the store was before.
	now, err := c.r.store.View(ctx, func(tx *store.Tx) error { return c.stillAt(tx, state) })
	if err == nil {
		err = c.r.store.Compact(ctx, now)
	}
	if err != nil {
		return p, err
	}
	next := state
	next.Step, next.Since = rekeyDone, c.r.now().UTC()
	if err := c.putRekey(ctx, by, state, next); err != nil {
		return p, err
	}
	c.log.Info("data key replaced")
	p.Doing, p.Done = "", true
	return p, nil
}

// askAll has every current server do what the store says, hands it a key when
// there is one, and wants it to have exactly these. It returns how many servers
// there are.
func (c *cluster) askAll(ctx context.Context, key []byte, want []string) (int, error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return 0, err
	}
	n := 1
	for id, s := range servers {
		if id == c.r.keys.Server || s.State != mesh.ServerMember {
			continue
		}
		n++
		have, err := c.askKeys(ctx, s, key)
		if err != nil {
			return 0, mesh.WithHint(fmt.Errorf("mgmt: replace data key: server %q does not take part: %w: %w", s.Name, err, mesh.ErrConflict),
				"bring it back, or remove it (meshctl admin mgmt remove "+s.Name+"); then run the same again: it goes on")
		}
		if want != nil && !slices.Equal(have, want) {
			return 0, mesh.WithHint(fmt.Errorf("mgmt: replace data key: server %q does not have the keys it should: %w", s.Name, mesh.ErrConflict), "run the same again")
		}
	}
	if want != nil {
		if err := c.followRekey(ctx); err != nil {
			return 0, err
		}
		if !slices.Equal(c.keyIDs(), want) {
			return 0, errAgain
		}
	}
	return n, nil
}

// askKeys asks the server that is on record, and nobody who only has a
// certificate for its name: whoever stole an intermediate can make one.
func (c *cluster) askKeys(ctx context.Context, s mesh.Server, key []byte) ([]string, error) {
	var errs []error
	node := c.r.self.node
	for _, a := range s.Addresses {
		have, err := func() ([]string, error) {
			ctx, cancel := context.WithTimeout(ctx, rekeyAskTime)
			defer cancel()
			who := mesh.Identity{Mesh: c.r.keys.Mesh, Role: mesh.RoleMgmt, ID: string(s.ID)}
			l, err := dialLink(ctx, a, node.ClientTLS(who, c.r.revs, identity.ProtoGRPC))
			if err != nil {
				return nil, err
			}
			defer l.close()
			peer, err := identity.PeerOf(l.state)
			if err == nil {
				err = c.r.onRecord(peer)
			}
			if err != nil {
				return nil, err
			}
			resp, err := l.Rekey(ctx, &controlpb.RekeyRequest{DataKey: key})
			return resp.GetKeys(), rpcstatus.From(err)
		}()
		if err == nil {
			return have, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("mgmt: it has no address on record: %w", mesh.ErrUnavailable)
	}
	return nil, errors.Join(errs...)
}

// Rekey implements the service.
func (c clusterService) Rekey(ctx context.Context, req *controlpb.RekeyRequest) (*controlpb.RekeyResponse, error) {
	peer, _ := identity.PeerFromContext(ctx)
	s, err := c.r.store.Servers.Get(ctx, mesh.ServerID(peer.ID))
	if err == nil && s.Value.State != mesh.ServerMember {
		err = fmt.Errorf("mgmt: replace data key: %s is no member: %w", peer.ID, mesh.ErrDenied)
	}
	if err != nil {
		return nil, outward(c.log, "rekey", err)
	}
	var more [][32]byte
	switch k := req.GetDataKey(); len(k) {
	case 0:
	case 32:
		more = [][32]byte{[32]byte(k)}
	default:
		return nil, fmt.Errorf("mgmt: replace data key: a key of %d bytes: %w", len(k), mesh.ErrInvalid)
	}
	if err := c.followRekey(ctx, more...); err != nil {
		return nil, outward(c.log, "rekey", err)
	}
	return &controlpb.RekeyResponse{Keys: c.keyIDs()}, nil
}
