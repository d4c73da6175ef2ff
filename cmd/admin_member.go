package cmd

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func memberNoun() noun[admin.MemberView] {
	name := func(m admin.MemberView) string { return m.Name }
	return noun[admin.MemberView]{
		one: "member", many: "members",
		empty: "add one with `meshctl admin member add NAME`",
		id:    func(m admin.MemberView) string { return string(m.ID) },
		label: name,
		refs:  refs(admin.MemberList, plain, name),
		columns: []column[admin.MemberView]{
			text("NAME", name),
			text("STATE", func(m admin.MemberView) string { return string(m.State) }),
			text("DEVICES", func(m admin.MemberView) string { return count(m.Devices) }),
			text("CORES", func(m admin.MemberView) string { return count(m.Cores) }),
			{"AGE", func(m admin.MemberView, now time.Time) string { return age(m.Created, now) }},
			text("ID", func(m admin.MemberView) string { return string(m.ID) }),
		},
		fields: func(m admin.MemberView, now time.Time) []field {
			return []field{
				{"Name", m.Name},
				{"Id", string(m.ID)},
				{"State", string(m.State)},
				{"Note", m.Note},
				{"Devices", count(m.Devices)},
				{"Device limit", deviceLimit(m.DeviceLimit)},
				{"Cores", count(m.Cores)},
				{"Created", at(m.Created, now)},
			}
		},
	}
}

func newAdminMember(a *adminCLI) *cobra.Command {
	n := memberNoun()
	state := func(d deed, to mesh.MemberState) *cobra.Command {
		return newDeed(a, n, d, admin.MemberSet, func(ref string) admin.MemberSetRequest {
			return admin.MemberSetRequest{Ref: ref, State: &to}
		})
	}
	return group("member", "People who take part",
		newMemberAdd(a, n),
		newList(a, n, admin.MemberList, 0, plain),
		newMemberShow(a, n),
		newMemberSet(a, n),
		state(deed{use: "suspend", short: "Stop serving a member's devices until resumed", done: "suspended"}, mesh.MemberSuspended),
		state(deed{use: "resume", short: "Serve a suspended member again", done: "resumed"}, mesh.MemberActive),
		state(deed{use: "archive", short: "End a membership for good and keep its record", done: "archived",
			danger: "Its devices stop for good; this cannot be undone."}, mesh.MemberArchived),
		newRemove(a, n, admin.MemberRemove, "Its record is deleted."),
	)
}

// newMemberShow shows a member's devices below what is known of the member.
func newMemberShow(a *adminCLI, n noun[admin.MemberView]) *cobra.Command {
	c := newShow(a, n, admin.MemberGet)
	c.Short = "Show one member and its devices"
	c.RunE = a.run(func(ctx context.Context, s *adminSession, args []string) error {
		v, err := ask(ctx, s, admin.MemberGet, admin.Ref{Ref: args[0]})
		if err != nil {
			return err
		}
		if err := printOne(s.out(), s.format, n, v, s.now); err != nil || len(v.DeviceList) == 0 {
			return err
		}
		if err := s.say(""); err != nil || s.format.String() != outputTable {
			return err
		}
		devices := deviceNoun()
		devices.columns = slices.DeleteFunc(devices.columns, func(c column[admin.DeviceView]) bool { return c.head == "MEMBER" })
		return printList(s.out(), s.format, devices, admin.List[admin.DeviceView]{Items: v.DeviceList}, s.now)
	})
	return c
}

func newMemberAdd(a *adminCLI, n noun[admin.MemberView]) *cobra.Command {
	var note string
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a member", Args: takes("NAME"), ValidArgsFunction: completeArgs(a),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := ask(ctx, s, admin.MemberAdd, admin.MemberAddRequest{Name: args[0], Note: note})
			if err != nil {
				return err
			}
			return changed(s, n, v, "added")
		}),
	}
	c.Flags().StringVar(&note, "note", "", "a remark for other administrators")
	return c
}

func newMemberSet(a *adminCLI, n noun[admin.MemberView]) *cobra.Command {
	var name, note, limit string
	c := &cobra.Command{
		Use: "set MEMBER", Short: "Change a member's name, note or limit of devices", Args: takes("MEMBER"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("name", "note", "device-limit"); err != nil {
				return err
			}
			req := admin.MemberSetRequest{Ref: args[0], Name: given(s, "name", name), Note: given(s, "note", note)}
			if s.cmd.Flags().Changed("device-limit") {
				n, err := parseDeviceLimit(limit)
				if err != nil {
					return err
				}
				req.DeviceLimit = &n
			}
			v, err := ask(ctx, s, admin.MemberSet, req)
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().StringVar(&note, "note", "", "new note; empty removes it")
	c.Flags().StringVar(&limit, "device-limit", "", "how many devices the member may have when they add them over the bot, or default: as bot.deviceLimit says")
	return c
}

// limitByDefault stands for no limit of the member's own.
const limitByDefault = "default"

// parseDeviceLimit reads a number, or that the configuration decides, which is -1.
func parseDeviceLimit(text string) (int, error) {
	if text == limitByDefault {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, usagef("--device-limit %q: want a number, or %s", mesh.Quotable(text), limitByDefault)
	}
	return int(n), nil
}

func deviceLimit(n *int) string {
	if n == nil {
		return limitByDefault
	}
	return count(*n)
}
