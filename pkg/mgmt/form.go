package mgmt

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
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
	door := &formingDoor{former: x, ln: ports.mesh}
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

// tell tells the others by gossip who this is.
func (x *former) tell() {
	f := gossip.Facts{
		Server: x.state.Server, Name: x.state.Name, Version: x.srv.Version, State: "founding", Address: x.addresses[0], Peer: x.srv.Config.peerURL(),
	}
	if err := x.gossip.SetFacts(f); err != nil {
		x.log.Warn("gossip not told", "err", err)
	}
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

// expected are all servers that found together, the lowest name first, or one
// line that says why they are not there.
func (x *former) expected(ctx context.Context) ([]gossip.Seen, string) {
	all := x.gossip.Members()
	names := map[string]gossip.Seen{}
	for _, m := range all {
		if other, twice := names[m.Name]; twice {
			return nil, fmt.Sprintf("two servers have the name %q, at %s and %s: give one of them another --name", m.Name, other.From, m.From)
		}
		names[m.Name] = m
		if m.Mesh != "" {
			return nil, fmt.Sprintf("server %q at %s belongs to the mesh %s already, which this server has no part in: empty its folder, or let this one in: meshctl admin mgmt add %s", m.Name, m.From, m.Mesh, x.state.Name)
		}
	}
	want := x.srv.Config.BootstrapExpect
	switch {
	case len(all) > want:
		return nil, fmt.Sprintf("%d servers are there, %d are expected: %s", len(all), want, strings.Join(seenNames(all), ", "))
	case len(all) < want:
		return nil, x.missing(ctx, all, want)
	}
	return all, ""
}

func (x *former) missing(ctx context.Context, all []gossip.Seen, want int) string {
	lines := []string{fmt.Sprintf("%d of %d servers are there", len(all), want)}
	if len(all) > 0 { // none before this one is heard itself
		lines[0] += " (" + strings.Join(seenNames(all), ", ") + ")"
	}
	var away []string
	for _, p := range gossipPeers(x.srv.Config.Peers) {
		if !slices.ContainsFunc(gossip.Resolve(ctx, p), func(a netip.AddrPort) bool {
			return a.String() == x.srv.Config.gossipAddress() || slices.ContainsFunc(all, func(m gossip.Seen) bool { return m.From == a })
		}) {
			away = append(away, p)
		}
	}
	if len(away) > 0 {
		lines = append(lines, "waiting for "+strings.Join(away, ", "))
	}
	for _, a := range x.gossip.Foreign() {
		lines = append(lines, fmt.Sprintf("a server at %s has another bootstrap secret", a))
	}
	return strings.Join(lines, "; ")
}

func seenNames(all []gossip.Seen) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}

// makeRoot makes the mesh's root, and promises it to itself before anybody else
// hears of it.
func (x *former) makeRoot(ctx context.Context) error {
	secret, err := x.folder.askPassphrase(ctx, x.srv.Passphrase)
	if err != nil {
		return err
	}
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	if x.state.Promise != nil {
		return nil // somebody else was promised meanwhile
	}
	id := mesh.NewID()
	root, err := ca.NewRoot(id, x.now())
	if err != nil {
		return err
	}
	sealed, err := root.Seal([]byte(secret.Reveal()))
	if err != nil {
		return err
	}
	x.root = root
	if err := errors.Join(x.folder.write(fileRootSealed, sealed), x.folder.write(fileRootCert, ca.MarshalCert(root.Cert()))); err != nil {
		return err
	}
	if err := x.step("root"); err != nil {
		return err
	}
	sum := sha256.Sum256(root.Cert().Raw)
	x.state.Promise = &promise{
		Founder: x.state.Server, Name: x.state.Name, Mesh: id, RootHash: sum[:], Addresses: x.addresses, At: x.now().UTC(),
	}
	return x.save("promised to itself")
}

// found asks the others for their promise, signs their intermediates, and makes
// the mesh once all have given it.
func (x *former) found(ctx context.Context) (*keys, error) {
	all, why := x.expected(ctx)
	if why != "" {
		x.say(why)
		return nil, nil
	}
	promises := make([]*controlpb.Joiner, 0, len(all)-1)
	for _, m := range all {
		if m.Server == x.state.Server {
			continue
		}
		j, err := x.ask(ctx, m)
		if err != nil {
			x.say(fmt.Sprintf("server %q: %v", m.Name, err))
			return nil, nil
		}
		promises = append(promises, j)
		if err := x.step("asked " + m.Name); err != nil {
			return nil, err
		}
	}
	if err := x.plan(ctx, promises); err != nil {
		return nil, err
	}
	return x.loaded(nil, "")
}

// plan signs for everybody while the root is open, and writes all keys, and
// server.json last.
func (x *former) plan(ctx context.Context, joiners []*controlpb.Joiner) error {
	root, err := x.openRoot(ctx)
	if err != nil {
		return err
	}
	now := x.now()
	x.state.Others = nil
	for _, j := range joiners {
		s, key, err := serverOf(j, now)
		if err != nil {
			return err
		}
		cert, err := root.Intermediate(s.ID, key, now)
		if err != nil {
			return err
		}
		x.state.Others = append(x.state.Others, planned{s, ca.MarshalCert(cert)})
	}
	if err := x.save("planned"); err != nil {
		return err
	}
	own, err := root.Intermediate(x.state.Server, x.key.Public(), now)
	if err != nil {
		return err
	}
	etcd, err := ca.NewEtcdCA(x.state.Promise.Mesh, now)
	if err != nil {
		return err
	}
	text, err := etcd.Marshal()
	if err != nil {
		return err
	}
	if err := x.putDataKey(store.NewDataKey()); err != nil {
		return err
	}
	return x.writeKeys(map[string][]byte{
		fileEtcdCA: []byte(text.Reveal()), fileIntermediate: ca.MarshalCert(own),
	})
}

// putDataKey replaces what an attempt before this one has left: nothing is
// sealed under it.
func (x *former) putDataKey(key [32]byte) error {
	path := x.folder.path(fileDataKey)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return setup(err)
	}
	return setup(store.WriteDataKey(path, key))
}

// writeKeys writes key files and server.json last.
func (x *former) writeKeys(files map[string][]byte) error {
	for _, name := range []string{fileEtcdCA, fileRootSealed, fileRootCert, fileIntermediate} {
		if b, ok := files[name]; ok {
			if err := x.folder.write(name, b); err != nil {
				return err
			}
		}
	}
	if err := x.step("keys"); err != nil {
		return err
	}
	if err := x.folder.writeJSON(fileServer, serverFile{Mesh: x.meshID(), Server: x.state.Server, Made: x.now().UTC()}); err != nil {
		return err
	}
	return x.step("founded")
}

// openRoot asks for the passphrase again when the process that made the root is
// gone.
func (x *former) openRoot(ctx context.Context) (*ca.Root, error) {
	if x.root != nil {
		return x.root, nil
	}
	const withdraw = "withdraw the founding on every server and begin again: meshctl mgmt abandon-founding"
	sealed, err := os.ReadFile(x.folder.path(fileRootSealed))
	if err != nil {
		return nil, setupf(withdraw, "read the root: %w", err)
	}
	text, err := os.ReadFile(x.folder.path(fileRootCert))
	if err != nil {
		return nil, setupf(withdraw, "read the root: %w", err)
	}
	cert, err := ca.ParseCert(text)
	if err != nil {
		return nil, setup(err)
	}
	secret, err := x.folder.askPassphrase(ctx, x.srv.Passphrase)
	if err != nil {
		return nil, err
	}
	root, err := ca.OpenRoot(sealed, cert, []byte(secret.Reveal()))
	if err != nil {
		return nil, setupf("give the passphrase that this founding began with, or withdraw it on every server: meshctl mgmt abandon-founding", "go on founding: %w", err)
	}
	return root, nil
}
