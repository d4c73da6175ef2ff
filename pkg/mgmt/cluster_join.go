package mgmt

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// clusterService is the Cluster service of a server that is in a mesh.
type clusterService struct {
	controlpb.UnimplementedClusterServer
	*cluster
}

// Promise implements the service: whoever has a mesh promises nothing.
func (c clusterService) Promise(ctx context.Context, req *controlpb.PromiseRequest) (*controlpb.PromiseResponse, error) {
	p, err := c.proves(ctx, req.GetProof())
	if err != nil {
		return nil, err
	}
	return &controlpb.PromiseResponse{Proof: p.proof(proofAnswer), Refusal: "this server belongs to the mesh " + string(c.r.keys.Mesh) + " already"}, nil
}

// proves admits a caller that has the bootstrap secret, while that admits anybody.
func (c clusterService) proves(ctx context.Context, proof []byte) (prover, error) {
	caller, _ := callerOf(ctx)
	p, err := newProver(c.secret, caller.tls)
	if err == nil {
		err = p.check(proofAsk, proof)
	}
	if err != nil {
		return p, status.Error(codes.PermissionDenied, err.Error())
	}
	open, err := c.founding(ctx)
	switch {
	case err != nil:
		return p, outward(c.log, "join", err)
	case !open:
		return p, status.Error(codes.PermissionDenied, "mgmt: the founding is over: a server comes with a token now (meshctl admin mgmt add NAME)")
	}
	return p, nil
}

// Join implements the service.
func (c clusterService) Join(ctx context.Context, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
	var proof []byte
	if peer, ok := identity.PeerFromContext(ctx); !ok {
		p, err := c.proves(ctx, req.GetProof())
		if err != nil {
			return nil, err
		}
		proof = p.proof(proofAnswer)
	} else if peer.ID != req.GetJoiner().GetServer() {
		return nil, fmt.Errorf("mgmt: join: the certificate is of another server: %w", mesh.ErrDenied)
	}
	resp, err := c.join(ctx, req)
	if err != nil {
		return nil, outward(c.log, "join", err)
	}
	resp.Proof = proof
	return resp, nil
}

func refuse(format string, args ...any) (*controlpb.JoinResponse, error) {
	return &controlpb.JoinResponse{Refusal: fmt.Sprintf(format, args...)}, nil
}

func later(format string, args ...any) (*controlpb.JoinResponse, error) {
	return &controlpb.JoinResponse{Waiting: fmt.Sprintf(format, args...)}, nil
}

// join is one step further for a server that wants in.
func (c *cluster) join(ctx context.Context, req *controlpb.JoinRequest) (*controlpb.JoinResponse, error) {
	s, key, err := serverOf(req.GetJoiner(), c.r.now())
	if err != nil {
		return nil, err
	}
	have, err := c.r.store.Servers.Get(ctx, s.ID)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return refuse("this mesh does not know the server %q (%s): empty its data folder and let it in: meshctl admin mgmt add NAME", s.Name, s.ID)
	case err != nil:
		return nil, err
	case have.Value.State == mesh.ServerRemoved:
		return refuse("this server was removed from the mesh: to bring the machine back, empty its data folder and let it in anew: meshctl admin mgmt add NAME")
	}
	if state, err := c.rekeyState(ctx); err != nil {
		return nil, err
	} else if state.underWay() && have.Value.State == mesh.ServerJoining {
		return later("waits until the data key is replaced: finish what was begun with meshctl admin secrets rekey")
	}
	if own := c.r.srv.Config.peerURL(); loopback(own) && !loopback(s.Peer) {
		return later("etcd of server %q listens for the others on %s, which %q cannot reach: set etcd.peer-listen there to a private address and restart it", c.name(), own, s.Name)
	}
	if err := c.note(ctx, s, req.GetJoiner().GetKey()); err != nil {
		return nil, err
	}
	cert, err := c.r.store.CA.Get(ctx, blobIssuer(s.ID))
	if errors.Is(err, mesh.ErrNotFound) {
		return later("waits until its intermediate is signed with the root passphrase: meshctl admin mgmt add does so while it waits")
	}
	if err != nil {
		return nil, err
	}
	if !issuedFor(cert.Value.Data, key) {
		return refuse("an intermediate was signed for another key of this server: remove it and let it in anew")
	}
	return c.admit(ctx, s, have.Value.State, cert.Value.Data, req.GetBegun())
}

func issuedFor(cert []byte, key crypto.PublicKey) bool {
	x, err := ca.ParseCert(cert)
	return err == nil && identity.KeyHash(x.PublicKey) == identity.KeyHash(key)
}

func loopback(peer string) bool {
	a, err := netip.ParseAddrPort(strings.TrimPrefix(peer, "https://"))
	return err == nil && a.Addr().IsLoopback()
}

func blobRequest(s mesh.ServerID) string { return "request." + string(s) }

// note writes down where a joining server is, and for which key it asks.
func (c *cluster) note(ctx context.Context, s mesh.Server, key []byte) error {
	_, err := c.change(ctx, "server.note", func(tx *store.Tx) error {
		have, err := store.Get(tx, c.r.store.Servers, s.ID)
		if err != nil {
			return err
		}
		changed := false
		if have.State == mesh.ServerJoining && (have.Peer != s.Peer || have.Gossip != s.Gossip || !slices.Equal(have.Addresses, s.Addresses)) {
			changed = true
			err = store.Update(tx, c.r.store.Servers, s.ID, func(x *mesh.Server) error {
				x.Peer, x.Gossip, x.Addresses = s.Peer, s.Gossip, s.Addresses
				return nil
			})
			if err != nil {
				return err
			}
		}
		_, err = store.Get(tx, c.r.store.CA, blobRequest(s.ID))
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			return store.Create(tx, c.r.store.CA, blobRequest(s.ID), store.Blob{Data: key, Created: c.r.now().UTC()})
		case err == nil && !changed:
			return errAgain
		}
		return err
	})
	if errors.Is(err, errAgain) {
		return nil
	}
	return err
}

// admit makes room in etcd for a server and hands everything over.
func (c *cluster) admit(ctx context.Context, s mesh.Server, state mesh.ServerState, cert []byte, begun bool) (*controlpb.JoinResponse, error) {
	member := c.r.etcd.member
	peers, err := member.Peers()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(peers, func(p etcdPeer) bool { return p.URL == s.Peer })
	switch {
	case i >= 0 && !peers[i].Learner && begun:
		return c.handOver(ctx, s, cert, true)
	case state == mesh.ServerMember:
		return refuse("server %q has lost its data: remove it (meshctl admin mgmt remove %s), empty its folder and let it in anew", s.Name, s.ID)
	case i >= 0 && !peers[i].Learner:
		return refuse("another server has the peer address %s: remove that first: meshctl admin mgmt remove NAME", s.Peer)
	case i >= 0 && begun:
		// It has begun and never had a vote: it begins anew, as another member.
		if err := member.Remove(ctx, peers[i].ID); err != nil {
			return later("etcd is not ready for it: %v", err)
		}
	case i >= 0:
		return c.handOver(ctx, s, cert, false)
	case slices.ContainsFunc(peers, func(p etcdPeer) bool { return p.Learner }):
		return later("another server is being let in first")
	}
	if err := member.AddLearner(ctx, s.Peer); err != nil {
		return later("etcd is not ready for another member: %v", err)
	}
	return c.handOver(ctx, s, cert, false)
}

// handOver is all that a server needs to be one of the mesh's.
func (c *cluster) handOver(ctx context.Context, s mesh.Server, cert []byte, resume bool) (*controlpb.JoinResponse, error) {
	peers, err := c.r.etcd.member.Peers()
	if err != nil {
		return nil, err
	}
	var members []string
	for _, p := range peers {
		name := p.Name
		switch {
		case p.URL == s.Peer:
			name = string(s.ID)
		case name == "":
			name = p.ID // it has not run yet; only the URLs are compared
		}
		members = append(members, name+"="+p.URL)
	}
	key := c.r.store.DataKeys()[0]
	etcd, err := c.r.keys.etcd.Marshal()
	if err != nil {
		return nil, err
	}
	c.log.Info("server handed over", "server", s.ID, "name", s.Name)
	return &controlpb.JoinResponse{Handover: &controlpb.Handover{
		MeshId: string(c.r.keys.Mesh), Root: ca.MarshalCert(c.r.keys.root), RootSealed: c.r.keys.rootSealed, Intermediate: cert,
		EtcdCa: etcd.Reveal(), DataKey: key[:], Cluster: strings.Join(members, ","), Resume: resume,
	}}, nil
}

// moveTime bounds moving leadership.
const moveTime = 10 * time.Second

// MoveLeader implements the service, for a server that was asked and does not lead.
func (c clusterService) MoveLeader(ctx context.Context, req *controlpb.MoveLeaderRequest) (*controlpb.MoveLeaderResponse, error) {
	return &controlpb.MoveLeaderResponse{}, c.r.etcd.member.Lead(ctx, req.GetMember())
}

// moveLeader hands leadership to a member; whoever leads does it.
func (c *cluster) moveLeader(ctx context.Context, to string) error {
	err := c.r.etcd.member.Lead(ctx, to)
	if !errors.Is(err, mesh.ErrConflict) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	for _, l := range c.lines() {
		if !l.Leader {
			continue
		}
		var errs []error
		for _, a := range l.Addresses {
			link, err := dialMember(ctx, a, c.r.self.node)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			defer link.close()
			return link.moveLeader(ctx, to)
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("mgmt: move leader: no server leads now: %w", mesh.ErrUnavailable)
}
