package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func mgmtNoun() noun[admin.ServerLine] {
	name := func(l admin.ServerLine) string { return l.Name }
	return noun[admin.ServerLine]{
		one: "server", many: "servers",
		empty: "let one in with `meshctl admin mgmt add NAME`",
		id:    func(l admin.ServerLine) string { return string(l.ID) },
		label: name,
		refs:  refs(admin.MgmtList, plain, name),
		columns: []column[admin.ServerLine]{
			text("NAME", name),
			text("STATE", func(l admin.ServerLine) string { return string(l.State) }),
			text("NOW", serverNow),
			text("ADDRESSES", func(l admin.ServerLine) string { return listOf(l.Addresses) }),
			text("ETCD", func(l admin.ServerLine) string { return l.Peer }),
			{"JOINED", func(l admin.ServerLine, now time.Time) string { return age(l.Joined, now) }},
			text("ID", func(l admin.ServerLine) string { return string(l.ID) }),
		},
		fields: func(l admin.ServerLine, now time.Time) []field {
			return []field{
				{"Name", l.Name}, {"Id", string(l.ID)}, {"State", string(l.State)}, {"Now", serverNow(l)},
				{"Addresses", listOf(l.Addresses)}, {"etcd", l.Peer}, {"etcd member", l.Member}, {"Joined", at(l.Joined, now)},
			}
		},
	}
}

// serverNow is what a server is doing, as another one sees it.
func serverNow(l admin.ServerLine) string {
	switch {
	case l.State == mesh.ServerRemoved:
		return ""
	case l.Leader:
		return "leads"
	case l.Here:
		return "here"
	}
	return "away"
}

func newAdminMgmt(a *adminCLI) *cobra.Command {
	n := mgmtNoun()
	return group("mgmt", "Management servers",
		newList(a, n, admin.MgmtList, 0, plain),
		newMgmtAdd(a, n),
		newMgmtRemove(a, n),
		newMoveLeader(a, n),
	)
}

func newMoveLeader(a *adminCLI, n noun[admin.ServerLine]) *cobra.Command {
	return &cobra.Command{
		Use: "move-leader [SERVER]", Short: "Hand etcd's leadership to another server", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			ref := ""
			if len(args) > 0 {
				ref = args[0]
			}
			if _, err := ask(ctx, s, admin.MgmtMoveLeader, admin.Ref{Ref: ref}); err != nil {
				return err
			}
			return s.say("leadership moved")
		}),
	}
}

func newMgmtAdd(a *adminCLI, n noun[admin.ServerLine]) *cobra.Command {
	var file, life string
	c := &cobra.Command{
		Use: "add NAME", Short: "Let one more management server in", Args: takes("NAME"),
		Long: `Asks for the root passphrase, prints the token with which the new server comes,
and waits for it: when it has come, its intermediate is signed, it is handed what
it needs, and its etcd catches up. When this command is ended early, run it again
with the same name: it goes on.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			d, err := mesh.ParseSpan(life)
			if err != nil {
				return usagef("--life: %v", err)
			}
			secret, err := rootPassphrase(ctx, file)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.MgmtAdd, admin.MgmtAddRequest{Name: args[0], Passphrase: secret.Reveal(), Life: mesh.Duration(d)})
			if err != nil {
				return err
			}
			if v.Token != "" {
				if _, err := fmt.Fprintln(s.out(), v.Token); err != nil {
					return err
				}
				fmt.Fprintf(s.cmd.ErrOrStderr(), "usable once until %s; on the new server put it into a file of mode 0600 and run:\n  meshctl mgmt serve --token-file FILE\n", at(v.Expires, s.now))
			}
			return awaitServer(ctx, s, n, args[0], secret)
		}),
	}
	c.Flags().StringVar(&file, "passphrase-file", "", "file with the root passphrase, mode 0600 (default: ask on the terminal)")
	c.Flags().StringVar(&life, "life", "24h", "how long the token can be used, at most 30d")
	return c
}

func rootPassphrase(ctx context.Context, file string) (mesh.Secret, error) {
	if file = cmp.Or(file, credential("passphrase")); file != "" {
		return readSecretFile(ctx, "passphrase-file", file, os.Stdin)
	}
	if !isTerminal(os.Stdin) {
		return "", usagef("the root passphrase is needed, and there is no terminal to ask on").hint("give --passphrase-file (mode 0600)")
	}
	return askSecret(ctx, os.Stdin, os.Stderr, "Root passphrase: ")
}

// awaitTick is how often a server that is on its way is looked for.
const awaitTick = 2 * time.Second

// awaitServer waits until the server is a member. It outlives a server that
// does not answer for a while, as one does while etcd changes.
func awaitServer(ctx context.Context, s *adminSession, n noun[admin.ServerLine], name string, secret mesh.Secret) error {
	said := ""
	for {
		p, err := ask(ctx, s, admin.MgmtSign, admin.MgmtSignRequest{Name: name, Passphrase: secret.Reveal()})
		switch {
		case err != nil && !errors.Is(err, mesh.ErrUnavailable):
			return err
		case err == nil && p.Waiting == "" && p.Server != nil:
			return changed(s, n, *p.Server, "admitted")
		case err == nil && p.Waiting != said:
			said = p.Waiting
			fmt.Fprintln(s.cmd.ErrOrStderr(), "waiting", said)
		}
		t := time.NewTimer(awaitTick)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}
