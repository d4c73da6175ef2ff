package mgmt

import (
	"cmp"
	"context"
	"crypto"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// former brings this server into a mesh of several: it founds one together with
// the others, or is let into one with a join token. What it has done lies in the
// folder, so every step may be the last of this process.
type former struct {
	srv       *Server
	folder    *folder
	key       crypto.Signer // of this server's intermediate
	secret    mesh.Secret   // "": it came with a token
	addresses []string      // of its mesh port
	state     formation
	gossip    *gossip.Gossip
	log       *slog.Logger
	now       func() time.Time
	started   time.Time
	said      string
	root      *ca.Root // open, in the process that made it

	turn chan struct{} // holds one token: who takes it may change state
}

// formTick is how often a waiting server looks again by itself.
const formTick = time.Second

// form returns the keys of the mesh this server has become part of.
func (s *Server) form(ctx context.Context, f *folder, ports *listeners) (*keys, error) {
	x := &former{
		srv: s, folder: f, addresses: advertised(s.Config, ports), log: s.Log, now: time.Now,
		started: time.Now(), turn: make(chan struct{}, 1),
	}
	x.turn <- struct{}{}
	if err := x.begin(ctx); err != nil {
		return nil, err
	}
	founding, err := x.handed()
	if err != nil || founding {
		return x.loaded(err, "")
	}
	if x.state.Token != nil {
		return x.byToken(ctx)
	}
	var k *keys
	if x.secret, err = s.secret(ctx); err != nil {
		return nil, err
	}
	m, err := newMetrics(cmp.Or(s.Registry, prometheus.NewRegistry()))
	if err != nil {
		return nil, fmt.Errorf("mgmt: register metrics: %w", err)
	}
	door := &formingDoor{former: x, ln: ports.mesh, metrics: m}
	x.gossip = newGossip(s.Config, func(context.Context) []string { return gossipPeers(s.Config.Peers) }, x.log)
	x.gossip.Keys = [][]byte{bootstrapGossipKey(x.secret)}
	x.tell()
	err = together(ctx, door.run,
		func(ctx context.Context) error { return setupGossip(x.gossip.Run(ctx, func() {})) },
		func(ctx context.Context) (err error) {
			k, err = x.together(ctx)
			return err
		})
	if err == nil && k == nil {
		err = ctx.Err()
	}
	return k, err
}

// loaded reads the keys; cluster is not "" when etcd begins by joining.
func (x *former) loaded(err error, cluster string) (*keys, error) {
	if err != nil {
		return nil, err
	}
	k, err := x.folder.load()
	if err != nil {
		return nil, err
	}
	k.forming, k.cluster = &x.state, cluster
	if x.state.founds() {
		return k, x.folder.refuseLost()
	}
	return k, nil
}

// begin reads where this server was, or writes that it has begun.
func (x *former) begin(ctx context.Context) error {
	known, err := x.folder.formation()
	if err != nil {
		return err
	}
	if known != nil {
		x.state = *known
	} else {
		if err := x.folder.refuseHalf(); err != nil {
			return err
		}
		x.state = formation{Server: mesh.NewServerID(), Name: x.srv.Config.Name, Made: x.now().UTC()}
		if x.srv.Token != nil {
			x.state.Token = &origin{}
		}
		if err := x.save("begun"); err != nil {
			return err
		}
	}
	switch {
	case x.state.Token != nil && x.state.Promise == nil:
		if err := x.enroll(ctx); err != nil {
			return err
		}
		err = x.save("enrolled")
	case x.state.Promise == nil && x.state.Name != x.srv.Config.Name:
		x.state.Name = x.srv.Config.Name // nobody has been told the old one
		err = x.save("renamed")
	}
	if err != nil {
		return err
	}
	x.key, err = x.folder.intermediateKey()
	return err
}

// handed says whether this server can go on by itself: it is the founder and
// has all keys, or its etcd has a vote.
func (x *former) handed() (bool, error) {
	known, err := x.folder.has(fileServer)
	if err != nil || !known {
		return false, err
	}
	if x.state.founds() {
		return true, nil
	}
	return x.folder.has(etcdMarker)
}

// save writes the state down, then tells a test that the step is done.
func (x *former) save(step string) error {
	if err := x.folder.writeJSON(fileFormation, x.state); err != nil {
		return err
	}
	return x.step(step)
}

// step lets a test end the process here.
func (x *former) step(name string) error {
	if x.srv.step == nil {
		return nil
	}
	return x.srv.step(name)
}

// together founds the mesh with the others: as its founder, or by a promise.
func (x *former) together(ctx context.Context) (*keys, error) {
	for {
		changed := x.gossip.Changed()
		k, err := x.round(ctx)
		if k != nil || err != nil {
			return k, err
		}
		t := time.NewTimer(formTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-changed:
			t.Stop()
		case <-t.C:
		}
	}
}

// round does what can be done now. It returns nil when it has to wait.
func (x *former) round(ctx context.Context) (*keys, error) {
	p := x.promised()
	switch {
	case p != nil && p.Founder != x.state.Server:
		return x.join(ctx, p)
	case p == nil:
		all, why := x.expected(ctx)
		if why != "" {
			x.say(why)
			return nil, nil
		}
		if all[0].Server != x.state.Server {
			x.say(fmt.Sprintf("all %d servers are there; %s founds the mesh", len(all), all[0].Name))
			return nil, nil
		}
		if err := x.makeRoot(ctx); err != nil {
			return nil, err
		}
	}
	return x.found(ctx)
}

// say logs a line once, until there is another.
func (x *former) say(line string) {
	if line == x.said {
		return
	}
	x.said = line
	x.log.Warn("founding held up", "reason", line)
}

func (x *former) promised() *promise {
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	return x.state.Promise
}
