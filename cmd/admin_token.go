package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func tokenNoun() noun[admin.TokenView] {
	id := func(t admin.TokenView) string { return string(t.ID) }
	return noun[admin.TokenView]{
		one: "token", many: "tokens",
		empty: "make one with `meshctl admin token create --role core|entry|admin`",
		id:    id, label: id,
		refs: refs(admin.TokenList, plain, id),
		columns: []column[admin.TokenView]{
			text("ID", id),
			text("STATE", func(t admin.TokenView) string { return string(t.State) }),
			text("ROLE", func(t admin.TokenView) string { return string(t.Role) }),
			text("NAME", func(t admin.TokenView) string { return t.Name }),
			{"EXPIRES", func(t admin.TokenView, now time.Time) string { return age(t.Expires, now) }},
			text("BY", func(t admin.TokenView) string { return t.By }),
			text("USED BY", func(t admin.TokenView) string {
				if t.Used == nil {
					return ""
				}
				return t.Used.Node
			}),
		},
		fields: tokenFields,
	}
}

func tokenFields(t admin.TokenView, now time.Time) []field {
	out := []field{
		{"Id", string(t.ID)},
		{"State", string(t.State)},
		{"Role", string(t.Role)},
		{"Name", t.Name},
		{"Member", string(t.Member)},
		{"Cell", string(t.Cell)},
		{"Grants", string(t.Grant)},
		{"Created", at(t.Created, now)},
		{"By", t.By},
		{"Expires", at(t.Expires, now)},
	}
	if u := t.Used; u != nil {
		out = append(out, field{"Used by", u.Node}, field{"Used from", u.From}, field{"Used", at(u.At, now)})
	}
	return out
}

func newAdminToken(a *adminCLI) *cobra.Command {
	n := tokenNoun()
	return group("token", "One-time secrets with which nodes and administrators join",
		newTokenCreate(a),
		newList(a, n, admin.TokenList, 0, plain),
		newShow(a, n, admin.TokenGet),
		newDeed(a, n, deed{use: "revoke", short: "Make a token useless", done: "revoked"}, admin.TokenRevoke,
			func(ref string) admin.Ref { return admin.Ref{Ref: ref} }),
	)
}

func newTokenCreate(a *adminCLI) *cobra.Command {
	var req admin.TokenCreateRequest
	var role, grant, life string
	var quiet bool
	c := &cobra.Command{
		Use: "create", Short: "Make a join token", Args: takes(),
		Long: `Make a join token: one string with which one node or administrator joins, once.
It is shown this one time. On a terminal the command to run on the other machine
is printed with it; elsewhere, with --quiet and with -o name, the token stands
alone.`,
		Example: `  meshctl admin token create --role core --member alice --cell north
  (umask 077; meshctl admin token create --role entry > entry.token)
  meshctl admin token create --role admin --grant operator --name bob`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			d, err := mesh.ParseSpan(life)
			if err != nil {
				return usagef("--life: %v", err)
			}
			req.Role, req.Grant, req.Life = mesh.Role(role), mesh.AdminRole(grant), mesh.Duration(d)
			v, err := ask(ctx, s, admin.TokenCreate, req)
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), v)
			}
			if quiet || s.format == outputName || !isTerminal(s.out()) {
				_, err := fmt.Fprintln(s.out(), v.Token)
				return err
			}
			return printToken(s, v)
		}),
	}
	c.Flags().StringVar(&role, "role", "", "what joins with it: core, entry or admin")
	c.Flags().StringVar(&req.Name, "name", "", "name of what joins")
	c.Flags().StringVar(&req.Member, "member", "", "member who owns the core")
	c.Flags().StringVar(&req.Cell, "cell", "", "cell the core serves")
	c.Flags().StringVar(&grant, "grant", "", "role of the administrator: owner, operator or auditor")
	c.Flags().StringVar(&life, "life", "24h", "how long it can be used, at most 30d")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the token alone")
	if err := c.MarkFlagRequired("role"); err != nil {
		panic(err) // the flag does not exist: a programmer's mistake
	}
	complete(c, "role", string(mesh.RoleCore), string(mesh.RoleEntry), string(mesh.RoleAdmin))
	complete(c, "grant", string(mesh.AdminOwner), string(mesh.AdminOperator), string(mesh.AdminAuditor))
	completeFlag(a, c, "member", memberNoun().refs)
	completeFlag(a, c, "cell", cellNoun().refs)
	return c
}

// printToken shows a token and what to do with it. What is pasted into standard
// input is neither in the process list nor in the shell's history.
func printToken(s *adminSession, v admin.TokenCreated) error {
	line := map[mesh.Role]string{
		mesh.RoleCore:  "meshctl core join --token-file -",
		mesh.RoleEntry: "meshctl entry run --token-file -",
		mesh.RoleAdmin: "meshctl admin login --token-file -",
	}[v.Role]
	return s.say("token %s, a secret, usable once until %s:\n\n%s\n\nrun on the other machine, paste it, then Enter and Ctrl-D:\n  %s", v.ID, at(v.Expires, s.now), v.Token, line)
}
