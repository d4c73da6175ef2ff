package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func administratorNoun() noun[mesh.Administrator] {
	name := func(v mesh.Administrator) string { return v.Name }
	state := func(v mesh.Administrator) string {
		switch {
		case v.Banned:
			return "banned"
		case v.Revoked:
			return "revoked"
		case v.Suspended:
			return "suspended"
		}
		return "active"
	}
	return noun[mesh.Administrator]{
		one: "administrator", many: "administrators",
		empty: "invite one with `meshctl admin token create --role admin --grant operator`",
		id:    func(v mesh.Administrator) string { return string(v.ID) },
		label: name,
		refs:  refs(admin.AdminList, plain, name),
		columns: []column[mesh.Administrator]{
			text("NAME", name),
			text("ROLE", func(v mesh.Administrator) string { return string(v.Role) }),
			text("STATE", state),
			{"AGE", func(v mesh.Administrator, now time.Time) string { return age(v.Created, now) }},
			text("ID", func(v mesh.Administrator) string { return string(v.ID) }),
		},
		fields: func(v mesh.Administrator, now time.Time) []field {
			return []field{
				{"Name", v.Name},
				{"Id", string(v.ID)},
				{"Role", string(v.Role)},
				{"State", state(v)},
				{"Created", at(v.Created, now)},
			}
		},
	}
}

func newAdminAdministrator(a *adminCLI) *cobra.Command {
	n := administratorNoun()
	suspend := func(d deed, to bool) *cobra.Command {
		return newDeed(a, n, d, admin.AdminSet, func(ref string) admin.AdminSetRequest {
			return admin.AdminSetRequest{Ref: ref, Suspended: &to}
		})
	}
	return group("administrator", "People who may use these commands from elsewhere",
		newList(a, n, admin.AdminList, 0, plain),
		newShow(a, n, admin.AdminGet),
		newAdministratorSet(a, n),
		suspend(deed{use: "suspend", short: "Refuse an administrator until resumed", done: "suspended"}, true),
		suspend(deed{use: "resume", short: "Admit a suspended administrator again", done: "resumed"}, false),
		newBan(a, n, admin.AdminRevoke, "Their certificate is refused at once, and none of their name can join again."),
		newRevoke(a, n, admin.AdminRevoke, "Their certificate is refused at once; this cannot be undone."),
	)
}

func newAdministratorSet(a *adminCLI, n noun[mesh.Administrator]) *cobra.Command {
	var name, role string
	c := &cobra.Command{
		Use: "set ADMINISTRATOR", Short: "Change an administrator's name or role", Args: takes("ADMINISTRATOR"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("name", "role"); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.AdminSet, admin.AdminSetRequest{
				Ref: args[0], Name: given(s, "name", name), Role: given(s, "role", mesh.AdminRole(role)),
			})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().StringVar(&role, "role", "", "owner, operator or auditor")
	complete(c, "role", string(mesh.AdminOwner), string(mesh.AdminOperator), string(mesh.AdminAuditor))
	return c
}
