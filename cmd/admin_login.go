package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// tokenEnv is the variable that may hold a join token.
const tokenEnv = "MESHCTL_TOKEN"

func newAdminLogin(a *adminCLI) *cobra.Command {
	var token, tokenFile string
	var again bool
	c := &cobra.Command{
		Use: "login", Short: "Trade a token for an identity of your own on this machine", Args: takes(),
		Long: `Trade a token for an identity of your own on this machine. The token comes from
--token, --token-file (- is standard input), ` + tokenEnv + `, or is asked for. The key is
made here and never leaves; it is stored below $XDG_CONFIG_HOME/meshctl.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			return login(ctx, s, token, tokenFile, again)
		}),
	}
	c.Flags().StringVar(&token, "token", "", "the token; visible to other users of this machine while the command runs")
	c.Flags().StringVar(&tokenFile, "token-file", "", "file that holds the token; - is standard input")
	c.Flags().BoolVar(&again, "again", false, "log in anew although an identity is stored already")
	c.MarkFlagsMutuallyExclusive("token", "token-file")
	return c
}

func login(ctx context.Context, s *adminSession, token, tokenFile string, again bool) error {
	old, err := storedAdmin()
	switch {
	case errors.Is(err, mesh.ErrNotFound):
	case err != nil && !again:
		return err
	case err == nil && !again && s.now.Before(old.Leaf().NotAfter):
		return s.say("logged in as %s already, until %s; --again logs in anew", old.Identity().Node(), at(old.Leaf().NotAfter, s.now))
	}
	text, err := tokenText(ctx, s, token, tokenFile)
	if err != nil {
		return err
	}
	join, err := mesh.ParseJoinToken(text.Reveal())
	if err != nil {
		return err
	}
	if len(s.cfg.Server) > 0 && s.serverNamed {
		join.Addresses = s.cfg.Server
	}
	return enrollAdmin(ctx, s, join)
}

// enrollAdmin makes the new identity beside the old one and puts it in its
// place only when it is whole, so that a failed login loses nothing.
func enrollAdmin(ctx context.Context, s *adminSession, join mesh.JoinToken) error {
	stage, err := stageFolder()
	if err != nil {
		return err
	}
	e, err := control.Enroll(ctx, control.EnrollConfig{
		Token: join, Role: mesh.RoleAdmin, Folder: stage, Version: version().Version, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := swapStage(); err != nil {
		return err
	}
	if err := saveAdminServers(e.MgmtAddresses); err != nil {
		return err
	}
	return s.say("logged in as %s (%s) until %s", clean(e.Name), e.Node.Identity().Node(), at(e.Node.Leaf().NotAfter, s.now))
}

// tokenText finds the token: flag, file, environment, then a person.
func tokenText(ctx context.Context, s *adminSession, token, file string) (mesh.Secret, error) {
	if token != "" {
		return mesh.Secret(token), nil
	}
	if file != "" {
		return readSecretFile(ctx, "token-file", file, s.cmd.InOrStdin())
	}
	if v := os.Getenv(tokenEnv); v != "" {
		return mesh.Secret(v), nil
	}
	in, ok := s.cmd.InOrStdin().(*os.File)
	if !ok || !isTerminal(in) {
		return "", usagef("no token given").hint("use --token-file FILE, --token-file - or %s", tokenEnv)
	}
	return askSecret(ctx, in, s.err(), "token: ")
}

func newAdminLogout(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Delete your identity from this machine", Args: takes(),
		RunE: a.run(func(_ context.Context, s *adminSession, _ []string) error {
			node, err := storedAdmin() // also one that has ended
			if errors.Is(err, mesh.ErrNotFound) {
				return notLoggedIn()
			}
			if err != nil {
				return err
			}
			if err := s.confirm("Delete the key of " + node.Identity().Node() + " from this machine?"); err != nil {
				return err
			}
			home, err := adminHome()
			if err != nil {
				return err
			}
			if err := os.RemoveAll(filepath.Join(home, adminIdentity)); err != nil {
				return err
			}
			return s.say("logged out; the certificate itself ends at %s, or when an owner revokes %s",
				node.Leaf().NotAfter.UTC().Format(time.RFC3339), node.Identity().ID)
		}),
	}
}
