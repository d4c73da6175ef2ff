package control

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// EnrollConfig is what a node needs to trade a join token for a certificate.
type EnrollConfig struct {
	Token mesh.JoinToken
	// Pod, when set, takes the place of Token.
	Pod    *Pod
	Role   mesh.Role
	Folder *identity.Folder
	// State, when set, learns the addresses of management before the identity
	// is stored, so that no crash leaves a node that knows nobody.
	State   *State
	Version string
	// Wait goes on, backing off, while no server can be reached.
	Wait bool
	Log  *slog.Logger
	Dial DialFunc // nil: net.Dialer
}

// Enrolled is what the node has become.
type Enrolled struct {
	Node          *identity.Node
	Name          string // label from the token
	MgmtAddresses []string
}

// Enroll tries each address of the token in turn. The server proves that it is
// of the token's mesh before the secret is sent. A reply that was lost is made
// good by the next try, because the server answers the same key again.
//
// It returns ErrUnavailable when no address gave an answer, with the cause for
// each, ErrDenied when the server is of another mesh, and otherwise what the
// server answered. No error contains the token.
func Enroll(ctx context.Context, cfg EnrollConfig) (Enrolled, error) {
	var back Backoff
	for {
		e, err := cfg.round(ctx)
		if err == nil || !cfg.Wait || !errors.Is(err, mesh.ErrUnavailable) {
			return e, err
		}
		delay := back.Next()
		cfg.Log.Warn("enrolling postponed", "err", err, "delay", delay)
		if !sleep(ctx, delay) {
			return Enrolled{}, err
		}
	}
}

// round tries each address once.
func (cfg EnrollConfig) round(ctx context.Context) (Enrolled, error) {
	pending, err := cfg.Folder.NewRequest()
	if err != nil {
		return Enrolled{}, fmt.Errorf("control: enroll: %w", err)
	}
	pending.Pin = cfg.root()
	addrs, err := cfg.addresses()
	if err != nil {
		return Enrolled{}, err
	}
	var unreachable, foreign []error
	for _, addr := range addrs {
		resp, err := cfg.ask(ctx, addr, pending.CSR())
		f, isForeign := errors.AsType[*foreignServer](err)
		switch {
		case err == nil:
			return cfg.accept(pending, resp, addrs)
		case isForeign:
			foreign = append(foreign, f)
		case errors.Is(err, mesh.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			unreachable = append(unreachable, err)
		default:
			return Enrolled{}, fmt.Errorf("control: enroll: %w", err)
		}
	}
	if len(foreign) > 0 {
		return Enrolled{}, fmt.Errorf("control: enroll: %w", errors.Join(foreign...))
	}
	return Enrolled{}, mesh.WithHint(
		fmt.Errorf("control: enroll: no management server could be reached: %w: %v", mesh.ErrUnavailable, errors.Join(unreachable...)),
		"check the network and firewall of this machine, then run the same command again")
}

// root is the pin, and addresses are where to try.
func (cfg EnrollConfig) root() [32]byte {
	if cfg.Pod != nil {
		return cfg.Pod.Root
	}
	return cfg.Token.RootHash
}

func (cfg EnrollConfig) addresses() ([]string, error) {
	if cfg.Pod != nil {
		return cfg.Pod.Addresses()
	}
	return cfg.Token.Addresses, nil
}

// ask sends the request to one server.
func (cfg EnrollConfig) ask(ctx context.Context, addr string, csr []byte) (*controlpb.EnrollResponse, error) {
	req := &controlpb.EnrollRequest{Csr: csr, Version: cfg.Version, Role: string(cfg.Role)}
	resp, _, err := enrollAt(ctx, cfg.Dial, addr, cfg.root(), req, cfg.prove)
	if f, ok := errors.AsType[*foreignServer](err); ok && cfg.Pod == nil {
		f.of = "the mesh that made this token"
	}
	return resp, err
}

// prove says who asks.
func (cfg EnrollConfig) prove(_ identity.Peer, req *controlpb.EnrollRequest) (err error) {
	if cfg.Pod != nil {
		req.Pod, err = cfg.Pod.proof()
		return err
	}
	req.TokenId, req.Secret = string(cfg.Token.ID), cfg.Token.Secret.Reveal()
	return nil
}

// enrollAt sends req to the server at addr, once its chain has matched the pin and
// prove has added what proves who asks. reached says whether a server
// answered, with whatever.
func enrollAt(ctx context.Context, dial DialFunc, addr string, root [32]byte, req *controlpb.EnrollRequest,
	prove func(identity.Peer, *controlpb.EnrollRequest) error) (_ *controlpb.EnrollResponse, reached bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	l, err := connect(ctx, dial, addr, identity.PinnedTLS(root, identity.ProtoGRPC), MaxUnauthenticated)
	if errors.Is(err, mesh.ErrDenied) {
		return nil, true, &foreignServer{addr: addr, of: "the mesh that this node was given the root of", cause: err}
	}
	if err != nil {
		return nil, false, err
	}
	defer l.Close() // nothing follows that could be lost
	if err := prove(l.Peer, req); err != nil {
		return nil, true, err
	}
	resp, err := controlpb.NewEnrollmentClient(l).Enroll(ctx, req)
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", addr, l.explain(err))
	}
	return resp, true, nil
}

// accept checks the answer and makes it the node's identity.
func (cfg EnrollConfig) accept(p *identity.Pending, resp *controlpb.EnrollResponse, asked []string) (Enrolled, error) {
	fail := func(err error) (Enrolled, error) {
		return Enrolled{}, fmt.Errorf("control: enroll: the server's answer: %w", err)
	}
	if err := cfg.checkRole(resp.GetChain()); err != nil {
		return fail(err)
	}
	addrs := resp.GetMgmtAddresses()
	if len(addrs) == 0 {
		addrs = asked
	}
	if cfg.State != nil {
		if err := cfg.State.SetAddresses(addrs); err != nil {
			return fail(err)
		}
	}
	node, err := cfg.Folder.Commit(p, resp.GetChain())
	if err != nil {
		return fail(err)
	}
	return Enrolled{Node: node, Name: resp.GetName(), MgmtAddresses: addrs}, nil
}

// checkRole looks at what Commit cannot know: the role asked for.
func (cfg EnrollConfig) checkRole(chain [][]byte) error {
	if len(chain) == 0 {
		return fmt.Errorf("no certificate: %w", mesh.ErrInvalid)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil || len(leaf.URIs) != 1 {
		return fmt.Errorf("no readable certificate with one identity: %w", mesh.ErrInvalid)
	}
	id, err := mesh.ParseIdentity(leaf.URIs[0].String())
	if err != nil {
		return err
	}
	if id.Role != cfg.Role {
		return fmt.Errorf("the token is for the role %s, not %s: %w", id.Role, cfg.Role, mesh.ErrDenied)
	}
	return nil
}

// foreignServer is a server that is of another mesh.
type foreignServer struct {
	addr  string
	of    string // what it is not of
	cause error
}

func (e *foreignServer) Error() string {
	return fmt.Sprintf("the server at %s is not of %s: %v", e.addr, e.of, e.cause)
}

// Unwrap returns the cause, which is ErrDenied.
func (e *foreignServer) Unwrap() error { return e.cause }

// sleep waits for d and says whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
