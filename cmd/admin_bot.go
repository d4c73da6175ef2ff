package cmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func botUserNoun() noun[admin.BotUserView] {
	number := func(u admin.BotUserView) string { return u.Telegram }
	state := func(u admin.BotUserView) string { return cmp.Or(string(u.State), "linked") }
	return noun[admin.BotUserView]{
		one: "Telegram user", many: "Telegram users",
		empty: "link one with `meshctl admin bot link ADMINISTRATOR` or `--member MEMBER`",
		id:    func(u admin.BotUserView) string { return string(u.ID) },
		label: number,
		refs:  refs(admin.BotUserList, plain, number),
		columns: []column[admin.BotUserView]{
			text("NUMBER", number),
			text("NAME", func(u admin.BotUserView) string { return u.Name }),
			text("STATE", state),
			text("ADMINISTRATOR", func(u admin.BotUserView) string { return u.AdminName }),
			text("MEMBER", func(u admin.BotUserView) string { return u.MemberName }),
			{"AGE", func(u admin.BotUserView, now time.Time) string { return age(u.Created, now) }},
		},
		fields: func(u admin.BotUserView, now time.Time) []field {
			return []field{
				{"Number", u.Telegram},
				{"Id", string(u.ID)},
				{"Name", u.Name},
				{"State", state(u)},
				{"Administrator", u.AdminName},
				{"Member", u.MemberName},
				{"Language", u.Language},
				{"Since", at(u.Created, now)},
			}
		},
	}
}

func newAdminBot(a *adminCLI) *cobra.Command {
	n := botUserNoun()
	set := func(d deed, req admin.BotUserSetRequest) *cobra.Command {
		return newDeed(a, n, d, admin.BotUserSet, func(ref string) admin.BotUserSetRequest {
			req.Ref = ref
			return req
		})
	}
	return group("bot", "The Telegram bot, and who may use it",
		newBotLink(a),
		newList(a, n, admin.BotUserList, 0, plain),
		newBotStatus(a),
		set(deed{use: "unlink", short: "End what a Telegram account is linked to", done: "unlinked"}, admin.BotUserSetRequest{Unlink: true}),
		set(deed{use: "block", short: "Have the bot leave somebody without answers", done: "blocked"}, admin.BotUserSetRequest{Blocked: new(true)}),
		set(deed{use: "unblock", short: "Have the bot answer somebody again", done: "unblocked"}, admin.BotUserSetRequest{Blocked: new(false)}),
	)
}

// newBotStatus says how the bot goes, as the server that has it wrote.
func newBotStatus(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how the bot gets on with Telegram", Args: takes(), ValidArgsFunction: completeArgs(a),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.BotStatusGet, admin.None{})
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), v)
			}
			if s.format == outputName {
				return s.say("%s", cmp.Or(v.Username, "-"))
			}
			if err := printFields(s.out(), botFields(v, s.now)); err != nil {
				return err
			}
			for _, p := range v.Problems {
				if err := s.say("\nwarning: %s", clean(p)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func botFields(v admin.BotStatus, now time.Time) []field {
	name := ""
	if v.Username != "" {
		name = "@" + v.Username
	}
	state := string(v.State)
	if state == "" {
		state = "not tried yet"
		if !v.Configured {
			state = "not configured on this server (bot.token-file)"
		}
	}
	out := []field{
		{"Bot", name},
		{"State", state},
		{"Since", at(v.Since, now)},
		{"Server", string(v.Server)},
	}
	if v.Failures > 0 {
		out = append(out, field{"Failures in a row", count(v.Failures)})
	}
	if v.API > 0 {
		out = append(out, field{"API", fmt.Sprintf("the one named as number %d", v.API+1)})
	}
	return append(out,
		field{"Linked", count(v.Linked)},
		field{"Asking to join", count(v.Asking)},
		field{"Blocked", count(v.Blocked)},
		field{"Waiting to be sent", count(v.Waiting)},
		field{"Updates", fmt.Sprintf("%d handled, %d ignored", v.Updates, v.Ignored)},
		field{"Sent", fmt.Sprint(v.Sent)},
	)
}

func newBotLink(a *adminCLI) *cobra.Command {
	var req admin.BotCodeRequest
	var life, qr string
	c := &cobra.Command{
		Use: "link [ADMINISTRATOR]", Short: "Make a code that links a Telegram account", Args: takes("[ADMINISTRATOR]"),
		ValidArgsFunction: completeArgs(a, administratorNoun().refs),
		Long: `Make a code. Whoever shows it to the bot first is, for the bot, the administrator or
the member from then on, until "meshctl admin bot unlink". An administrator may do there
what the role permits, and never more than an operator. Owners link anybody,
operators themselves and members.`,
		Example: "  meshctl admin bot link boss\n  meshctl admin bot link --member alice --life 1d",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if len(args) > 0 {
				req.Admin = args[0]
			}
			if (req.Admin == "") == (req.Member == "") {
				return usagef("name either an administrator or a member").hint("meshctl admin bot link ADMINISTRATOR, or --member MEMBER")
			}
			if qr != qrAuto && qr != qrAlways && qr != qrNever {
				return usagef("--qr %s: want %s, %s or %s", qr, qrAuto, qrAlways, qrNever)
			}
			d, err := mesh.ParseSpan(life)
			if err != nil {
				return usagef("--life: %v", err)
			}
			req.Life = mesh.Duration(d)
			v, err := ask(ctx, s, admin.BotCodeCreate, req)
			if err != nil {
				return err
			}
			return printCode(s, v, qr)
		}),
	}
	c.Flags().StringVar(&req.Member, "member", "", "link this member's account, not an administrator's")
	c.Flags().StringVar(&life, "life", "1h", "how long the code can be used, at most 7d")
	c.Flags().StringVar(&qr, "qr", qrAuto, "print a QR code: auto (on a terminal), always or never")
	complete(c, "qr", qrAuto, qrAlways, qrNever)
	completeFlag(a, c, "member", memberNoun().refs)
	return c
}

// printCode shows a code and how to use it; the link once the bot's name is known.
func printCode(s *adminSession, v admin.BotCode, qr string) error {
	switch {
	case s.format.structured():
		return s.format.print(s.out(), v)
	case s.format == outputName || !isTerminal(s.out()) && qr != qrAlways:
		_, err := fmt.Fprintln(s.out(), cmp.Or(v.URL, v.Code))
		return err
	case v.URL == "":
		return s.say("code, a secret, usable once until %s; send it to the bot:\n\n  /link %s", at(v.Expires, s.now), v.Code)
	}
	if err := s.say("link, a secret, usable once until %s; open it where Telegram is, or send the bot\n/link %s\n\n%s", at(v.Expires, s.now), v.Code, v.URL); err != nil {
		return err
	}
	if qr == qrNever {
		return nil
	}
	return printQR(s.out(), v.URL)
}
