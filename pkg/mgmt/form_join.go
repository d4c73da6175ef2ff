package mgmt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// etcdMarker is written by the member once it has been ready.
	etcdMarker = dirEtcd + ".member"
	// aloneAfter is how long a server whose etcd has begun looks for another
	// one to ask before it begins without: all of them may be starting.
	aloneAfter = 10 * time.Second
)

func (x *former) meshID() mesh.ID { return x.state.Promise.Mesh }

// join asks the founder, or whoever is in its mesh by now, to be let in.
func (x *former) join(ctx context.Context, p *promise) (*keys, error) {
	addresses := p.Addresses
	for _, m := range x.gossip.Members() {
		if m.Mesh == p.Mesh && m.Address != "" {
			addresses = append(addresses, m.Address)
		}
	}
	who := fmt.Sprintf("promised to found %s with %q", p.Mesh, p.Name)
	return x.ask1(ctx, addresses, who, func(ctx context.Context, address string, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
		l, err := dialPinned(ctx, address, [32]byte(p.RootHash))
		if err != nil {
			return nil, err
		}
		defer l.close()
		return l.join(ctx, x.secret, req)
	})
}

// ask1 asks one address after the other, and takes what the first hands over.
func (x *former) ask1(ctx context.Context, addresses []string, who string, ask func(context.Context, string, *controlpb.JoinRequest) (*controlpb.JoinResponse, error)) (*keys, error) {
	begun, err := x.folder.has(etcdData)
	if err != nil {
		return nil, err
	}
	self, err := joiner(x.srv.Config, x.state, x.key.Public(), x.addresses)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addresses {
		resp, err := ask(ctx, a, &controlpb.JoinRequest{Joiner: self, Begun: begun})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		case resp.GetRefusal() != "":
			return nil, setupf("", "join: %s", resp.GetRefusal())
		case resp.GetHandover() != nil:
			if err := x.step("handed over"); err != nil {
				return nil, err
			}
			return x.accept(resp.GetHandover(), begun)
		default:
			x.say(who + "; " + resp.GetWaiting())
			return nil, nil
		}
	}
	known, err := x.folder.has(fileServer)
	if begun && known && err == nil && x.now().Sub(x.started) > aloneAfter {
		return x.loaded(nil, "") // the others may wait for this one's vote
	}
	x.say(fmt.Sprintf("%s; no server of the mesh answers: %v", who, errors.Join(errs...)))
	return nil, err
}

// unusable says what is wrong with what was handed over, "" when nothing is.
func (x *former) unusable(h *controlpb.Handover) string {
	root, err := ca.ParseCert(h.GetRoot())
	if err != nil {
		return "root"
	}
	p := x.state.Promise
	if sum := sha256.Sum256(root.Raw); string(sum[:]) != string(p.RootHash) || mesh.ID(h.GetMeshId()) != p.Mesh {
		return "it is of another mesh than was promised"
	}
	cert, err := ca.ParseCert(h.GetIntermediate())
	if err != nil || cert.CheckSignatureFrom(root) != nil || identity.KeyHash(cert.PublicKey) != identity.KeyHash(x.key.Public()) {
		return "intermediate"
	}
	if _, err := ca.ParseEtcdCA(mesh.Secret(h.GetEtcdCa())); err != nil || len(h.GetDataKey()) != 32 || h.GetCluster() == "" {
		return "keys"
	}
	return ""
}

// accept checks and stores what was handed over.
func (x *former) accept(h *controlpb.Handover, begun bool) (*keys, error) {
	why := x.unusable(h)
	if why == "" && h.GetResume() && !begun {
		why = "its etcd has no data here"
	}
	if why != "" {
		return nil, setupf("", "join: what was handed over is not usable: %s", why)
	}
	if !h.GetResume() {
		// Nobody counts on what etcd has here: it never had a vote.
		if err := errors.Join(os.RemoveAll(x.folder.path(dirEtcd)), os.RemoveAll(x.folder.path(etcdMarker))); err != nil {
			return nil, setup(err)
		}
	}
	// A server that has a vote has its keys too, perhaps two of them.
	if has, err := x.folder.has(fileDataKey); err != nil || !has || !h.GetResume() {
		if err := errors.Join(err, x.putDataKey([32]byte(h.GetDataKey()))); err != nil {
			return nil, err
		}
	}
	err := x.writeKeys(map[string][]byte{
		fileEtcdCA: []byte(h.GetEtcdCa()), fileRootSealed: h.GetRootSealed(), fileRootCert: h.GetRoot(),
		fileIntermediate: h.GetIntermediate(),
	})
	if err != nil {
		return nil, err
	}
	cluster := h.GetCluster()
	if h.GetResume() {
		cluster = ""
	}
	return x.loaded(nil, cluster)
}

// enroll trades the join token for an identity. The process may have been ended
// between the two writes of that: then the identity is there already.
func (x *former) enroll(ctx context.Context) error {
	if x.srv.Token == nil {
		return setupf("start it again with --token-file", "join: this server has begun to join a mesh with a token")
	}
	tok, err := x.srv.Token(ctx)
	if err != nil {
		return fmt.Errorf("mgmt: join: token: %w", err)
	}
	folder, err := identity.OpenFolder(x.folder.path(dirNode))
	if err != nil {
		return setup(err)
	}
	e := control.Enrolled{Name: x.state.Name, MgmtAddresses: tok.Addresses}
	if e.Node, err = folder.Load(); errors.Is(err, mesh.ErrNotFound) {
		e, err = control.Enroll(ctx, control.EnrollConfig{
			Token: tok, Role: mesh.RoleMgmt, Folder: folder, Version: x.srv.Version, Wait: true, Log: x.log,
		})
	}
	if mesh.Kind(err) == mesh.ErrUnavailable || ctx.Err() != nil {
		return err
	}
	if err != nil {
		return setup(err)
	}
	id := e.Node.Identity()
	x.state.Server, x.state.Name = mesh.ServerID(id.ID), e.Name
	x.state.Token = &origin{Addresses: e.MgmtAddresses}
	x.state.Promise = &promise{Mesh: id.Mesh, RootHash: tok.RootHash[:], Addresses: e.MgmtAddresses, At: x.now().UTC()}
	return nil
}

// byToken asks the mesh to be let in, with the identity that the token gave.
func (x *former) byToken(ctx context.Context) (*keys, error) {
	folder, err := identity.OpenFolder(x.folder.path(dirNode))
	if err != nil {
		return nil, setup(err)
	}
	node, err := folder.Load()
	if err != nil {
		return nil, setup(err)
	}
	who := fmt.Sprintf("server %q is known to mesh %s", x.state.Name, x.meshID())
	for {
		k, err := x.ask1(ctx, x.state.Token.Addresses, who, func(ctx context.Context, address string, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
			l, err := dialMember(ctx, address, node)
			if err != nil {
				return nil, err
			}
			defer l.close()
			return l.joinKnown(ctx, req)
		})
		if k != nil || err != nil {
			return k, err
		}
		t := time.NewTimer(formTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

// Abandon withdraws this server's promise to found a mesh, and what it has made
// for it. It returns ErrConflict once the server is part of a mesh.
func Abandon(dir string) (string, error) {
	f, err := openFolder(dir)
	if err != nil {
		return "", err
	}
	defer f.close()
	x, err := f.formation()
	if err != nil {
		return "", err
	}
	known, err := f.has(fileServer)
	switch {
	case err != nil:
		return "", err
	case known:
		return "", mesh.WithHint(fmt.Errorf("mgmt: abandon founding: this server is part of a mesh: %w", mesh.ErrConflict),
			"to take it out: meshctl admin mgmt remove NAME")
	case x == nil:
		return "", fmt.Errorf("mgmt: abandon founding: none is under way in %s: %w", dir, mesh.ErrNotFound)
	}
	// The promise goes last: as long as it is there, nothing else is promised.
	for _, name := range append(keyFiles[:], fileEpoch, dirNode, fileFormation) {
		for _, n := range []string{name + ".old", name} {
			if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
				return "", setupf("", "abandon founding: %w", err)
			}
		}
	}
	if x.Promise == nil {
		return "nothing had been promised", nil
	}
	return fmt.Sprintf("the promise to found %s with %s is withdrawn", x.Promise.Mesh, x.Promise.Founder), nil
}
