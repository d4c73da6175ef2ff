package control

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Pod is how an entry that is a pod of a Kubernetes cluster enrolls, and renews:
// with a token of its service account, where others have a join token, and later
// their certificate. Its files are read each time, since the kubelet replaces what
// is in them.
type Pod struct {
	Cluster   mesh.KubeID
	TokenFile string
	// Root is the SHA-256 of the mesh's root: only its servers are shown the token.
	Root [32]byte
	// MgmtFile has the addresses of management, host:port, one in a line.
	MgmtFile string
}

const (
	maxPodToken = 16 << 10
	maxMgmtFile = 16 << 10
	// mgmtEvery is how often MgmtFile is read.
	mgmtEvery = 30 * time.Second
)

// proof reads the token.
func (p *Pod) proof() (*controlpb.PodProof, error) {
	b, err := readBounded(p.TokenFile, maxPodToken)
	if err != nil {
		return nil, fmt.Errorf("control: read the pod's token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return nil, fmt.Errorf("control: read the pod's token: %s: want one word: %w", p.TokenFile, mesh.ErrInvalid)
	}
	return &controlpb.PodProof{Cluster: string(p.Cluster), Token: token}, nil
}

// Addresses reads the addresses of management.
func (p *Pod) Addresses() ([]string, error) {
	b, err := readBounded(p.MgmtFile, maxMgmtFile)
	if err != nil {
		return nil, fmt.Errorf("control: read the addresses of management: %w", err)
	}
	out := strings.Fields(string(b))
	for _, a := range out {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("control: read the addresses of management: %s: %q: want host:port: %w", p.MgmtFile, mesh.Quotable(a), mesh.ErrInvalid)
		}
	}
	if len(out) == 0 || len(out) > maxAddresses {
		return nil, fmt.Errorf("control: read the addresses of management: %s: %d of them, want 1 to %d: %w", p.MgmtFile, len(out), maxAddresses, mesh.ErrInvalid)
	}
	return out, nil
}

func readBounded(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: want at most %d bytes: %w", file, most, mesh.ErrInvalid)
	}
	return b, nil
}

// FollowAddresses puts addresses into st as they change in MgmtFile, until ctx
// ends: management writes them there when it has moved, where the pod finds them
// although it no longer reaches a server. What a server says counts until then.
func (p *Pod) FollowAddresses(ctx context.Context, st *State, log *slog.Logger) error {
	return p.followAddresses(ctx, st, log, mgmtEvery)
}

func (p *Pod) followAddresses(ctx context.Context, st *State, log *slog.Logger, every time.Duration) error {
	var was []string
	var fault string
	for {
		now, err := p.Addresses()
		if err == nil && !slices.Equal(now, was) {
			addrs := now
			if was == nil { // which of the two is newer is not known
				addrs = merged(now, st.Addresses())
			}
			if err = st.SetAddresses(addrs); err == nil {
				was = now
			}
		}
		if err != nil && err.Error() != fault {
			log.Warn("addresses of management not read", "err", err)
		}
		fault = ""
		if err != nil {
			fault = err.Error()
		}
		if !sleep(ctx, every) {
			return nil
		}
	}
}

// merged is a with what only b has, as far as there is room.
func merged(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) && len(out) < maxAddresses {
			out = append(out, x)
		}
	}
	return out
}

// renew asks the server at addr for the next certificate: it is shown the token
// unless it is known to be revoked.
func (p *Pod) renew(ctx context.Context, r *Renewer, addr string, csr []byte) (*controlpb.RenewResponse, bool, error) {
	prove := func(server identity.Peer, req *controlpb.EnrollRequest) (err error) {
		if err := r.Revocations.Check(server); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		req.Pod, err = p.proof()
		return err
	}
	req := &controlpb.EnrollRequest{Csr: csr, Version: r.Version, Role: string(mesh.RoleEntry)}
	resp, reached, err := enrollAt(ctx, r.Dial, addr, p.Root, req, prove)
	if err != nil {
		return nil, reached, err
	}
	return &controlpb.RenewResponse{Chain: resp.GetChain(), MgmtAddresses: resp.GetMgmtAddresses()}, true, nil
}
