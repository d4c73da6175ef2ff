package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func rekeyNoun() noun[admin.RekeyProgress] {
	key := func(p admin.RekeyProgress) string { return p.Key }
	return noun[admin.RekeyProgress]{one: "data key", many: "data keys", id: key, label: key}
}

func newAdminSecrets(a *adminCLI) *cobra.Command {
	return group("secrets", "The key that secrets in the store are sealed under", newSecretsRekey(a))
}

func newSecretsRekey(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "rekey", Short: "Replace the data key and seal every secret anew", Args: cobra.NoArgs,
		Long: `A new key goes from server to server, every secret in the store is sealed under
it, and the old one is dropped everywhere. All servers have to be there; when one
is away, or this command is ended early, nothing is lost: run it again, at any
server, and it goes on. Until it is done no server can be let in.

A backup from before needs the old key, which no server has any more: take a new
one afterwards.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			if err := s.confirm("Replace the data key? Backups from before can then be opened only with a data.key from before."); err != nil {
				return err
			}
			p, err := rekey(ctx, s)
			if err != nil {
				return err
			}
			if s.format.String() != outputTable {
				return printOne(s.out(), s.format, rekeyNoun(), p, s.now)
			}
			return s.say("data key replaced on %d servers, %d values sealed anew", p.Servers, p.Sealed)
		}),
	}
}

const (
	rekeyTick = 500 * time.Millisecond
	// rekeyPatience is how long a server that asks for the step may be away, as
	// one is while etcd elects a leader.
	rekeyPatience = 15 * time.Second
)

// rekey has step after step taken until it is done.
func rekey(ctx context.Context, s *adminSession) (admin.RekeyProgress, error) {
	said, sealed, good := "", 0, time.Now()
	for {
		p, err := ask(ctx, s, admin.SecretsRekey, admin.None{})
		switch {
		case errors.Is(err, mesh.ErrUnavailable) && time.Since(good) < rekeyPatience:
		case err != nil:
			return p, err
		default:
			good = time.Now()
			sealed += p.Sealed
		}
		if p.Done {
			p.Sealed = sealed
			return p, nil
		}
		if err == nil && p.Doing != "" && p.Doing != said {
			said = p.Doing
			fmt.Fprintln(s.err(), said)
		}
		t := time.NewTimer(rekeyTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return p, ctx.Err()
		case <-t.C:
		}
	}
}
