package mgmt

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// dialTime bounds the look for a lost server at one address.
const dialTime = 3 * time.Second

// nobodyAnswers refuses while anything accepts connections where a lost server
// listened: two halves of a mesh would be two meshes. refusal says so of the
// first.
func nobodyAnswers(ctx context.Context, lost []mesh.Server, refusal func(ctx context.Context, s mesh.Server, at string) error) error {
	var asks []func() error
	for _, s := range lost {
		for _, at := range append(slices.Clone(s.Addresses), strings.TrimPrefix(s.Peer, "https://")) {
			asks = append(asks, func() error { return silent(ctx, s, at, refusal) })
		}
	}
	errs := make([]error, len(asks))
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() { errs[i] = ask() })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

func silent(ctx context.Context, s mesh.Server, at string, refusal func(context.Context, mesh.Server, string) error) error {
	if at == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", at)
	if err != nil {
		return ctx.Err() // silence is what is wanted
	}
	conn.Close() // it has told what was asked
	return refusal(ctx, s, at)
}

// notLost refuses a recovery.
func notLost(_ context.Context, s mesh.Server, at string) error {
	return mesh.WithHint(fmt.Errorf("mgmt: recover: server %q answers on %s, so it is not lost: %w", s.Name, at, mesh.ErrConflict),
		"two servers of three are a quorum: start both; if it is to go, stop it for good and wipe its data folder first")
}
