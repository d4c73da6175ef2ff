package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Peer is a member of the cluster.
type Peer struct {
	ID      string // hexadecimal
	Name    string // "" until it has run
	URL     string
	Learner bool // does not vote yet
	Leader  bool
}

// Peers are the members of the cluster as this one knows them, in order of id.
func (m *Member) Peers() ([]Peer, error) {
	e, err := m.running()
	if err != nil {
		return nil, err
	}
	var out []Peer
	for _, x := range e.Server.Cluster().Members() {
		p := Peer{ID: x.ID.String(), Name: x.Name, Learner: x.IsLearner, Leader: x.ID == e.Server.Leader()}
		if len(x.PeerURLs) > 0 {
			p.URL = x.PeerURLs[0]
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// AddLearner makes room for a member at that URL, which does not vote before it
// is promoted. It returns ErrUnavailable when the cluster is not fit for it now:
// another one is being added, or a member does not answer.
func (m *Member) AddLearner(ctx context.Context, peerURL string) error {
	urls, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return fmt.Errorf("embedded: add member at %q: %w", mesh.Quotable(peerURL), mesh.ErrInvalid)
	}
	return m.change(ctx, "add member", func(ctx context.Context, s server) error {
		now := time.Now()
		_, err := s.AddMember(ctx, *membership.NewMemberAsLearner("", urls, "", &now))
		return err
	})
}

// Promote gives a learner its vote. It returns ErrUnavailable while the learner
// has not caught up.
func (m *Member) Promote(ctx context.Context, id string) error {
	return m.changeOne(ctx, "promote member", id, func(ctx context.Context, s server, id types.ID) error {
		_, err := s.PromoteMember(ctx, uint64(id))
		if errors.Is(err, membership.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
}

// Remove takes a member out for good. It returns ErrUnavailable when the rest
// would not be a quorum; a member that is not there is no error.
func (m *Member) Remove(ctx context.Context, id string) error {
	return m.changeOne(ctx, "remove member", id, func(ctx context.Context, s server, id types.ID) error {
		_, err := s.RemoveMember(ctx, uint64(id))
		if errors.Is(err, membership.ErrIDNotFound) || errors.Is(err, membership.ErrIDRemoved) {
			return nil
		}
		return err
	})
}

// Readdress tells the cluster where a member's peer port is now.
func (m *Member) Readdress(ctx context.Context, id, peerURL string) error {
	return m.changeOne(ctx, "change member", id, func(ctx context.Context, s server, id types.ID) error {
		_, err := s.UpdateMember(ctx, membership.Member{ID: id, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{peerURL}}})
		return err
	})
}

// Lead hands leadership from this member to another. It returns ErrConflict when
// this one does not lead.
func (m *Member) Lead(ctx context.Context, id string) error {
	return m.changeOne(ctx, "move leader", id, func(ctx context.Context, s server, id types.ID) error {
		if s.Leader() != s.MemberID() {
			return mesh.ErrConflict
		}
		if s.Leader() == id {
			return nil
		}
		return m.handLeadership(ctx, s, id)
	})
}

// handLeadership asks again for as long as ctx allows: raft gives a transfer up
// after one election timeout, without a word, when the other was busy just then.
func (m *Member) handLeadership(ctx context.Context, s server, id types.ID) error {
	for {
		try, cancel := context.WithTimeout(ctx, 2*m.election())
		err := s.MoveLeader(try, uint64(s.MemberID()), uint64(id))
		cancel()
		switch {
		case err == nil, !errors.Is(err, etcderrors.ErrTimeoutLeaderTransfer), ctx.Err() != nil:
			return err
		case s.Leader() == id:
			return nil
		}
	}
}

// server is what of etcd's server changes its cluster.
type server interface {
	AddMember(context.Context, membership.Member) ([]*membership.Member, error)
	PromoteMember(context.Context, uint64) ([]*membership.Member, error)
	RemoveMember(context.Context, uint64) ([]*membership.Member, error)
	UpdateMember(context.Context, membership.Member) ([]*membership.Member, error)
	MoveLeader(ctx context.Context, lead, transferee uint64) error
	Leader() types.ID
	MemberID() types.ID
}

// changeTime bounds one change of the cluster.
const changeTime = 5 * time.Second

func (m *Member) changeOne(ctx context.Context, what, id string, f func(context.Context, server, types.ID) error) error {
	n, err := types.IDFromString(id)
	if err != nil {
		return fmt.Errorf("embedded: %s: id %q: %w", what, mesh.Quotable(id), mesh.ErrInvalid)
	}
	return m.change(ctx, what+" "+id, func(ctx context.Context, s server) error { return f(ctx, s, n) })
}

func (m *Member) change(ctx context.Context, what string, f func(context.Context, server) error) error {
	e, err := m.running()
	if err != nil {
		return err
	}
	// Not a child of ctx: etcd would look for its own kind of caller in the
	// context of a call to this process.
	own, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err = f(own, e.Server)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mesh.ErrConflict):
		return fmt.Errorf("embedded: %s: this member does not lead: %w", what, mesh.ErrConflict)
	case errors.Is(err, membership.ErrPeerURLexists), errors.Is(err, membership.ErrIDExists):
		return fmt.Errorf("embedded: %s: a member has that address: %w", what, mesh.ErrExists)
	case errors.Is(err, membership.ErrIDNotFound), errors.Is(err, etcderrors.ErrBadLeaderTransferee):
		return fmt.Errorf("embedded: %s: no member that votes: %w", what, mesh.ErrNotFound)
	}
	return fmt.Errorf("embedded: %s: %w: %w", what, err, mesh.ErrUnavailable)
}

// noteRemoved is called when etcd says that the member was removed.
func (m *Member) noteRemoved() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
}

func (m *Member) removed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}
