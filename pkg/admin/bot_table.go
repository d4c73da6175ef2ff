package admin

import (
	"fmt"
	"path"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// BotRule says when the bot may call a method for a Telegram user.
type BotRule struct {
	Standing mesh.BotStanding // the least of the user
	// Need is the least role of the administrator to whom an operator is bound, of
	// which the bot has no more than operator.
	Need    mesh.AdminRole
	Changes bool // BotUpdateHeader must be there
	Secret  bool // the answer holds a secret: not with BotSettings.NoSecrets
}

// BotTable is method path → when the bot may call it, default deny. What makes
// or changes administrators and servers, the root, passphrases, the readers of
// backups and restores is not in it, nor what changes the configuration.
func BotTable() map[string]BotRule {
	t := make(map[string]BotRule)
	add := func(r BotRule, all ...described) {
		for _, m := range all {
			name, need := m.describe()
			r.Need = need
			t[name] = r
		}
	}
	anyone, member, operates := mesh.BotAnyone, mesh.BotMember, mesh.BotOperator
	add(BotRule{Standing: anyone}, BotWho, BotExpect, BotLanguage)
	add(BotRule{Standing: anyone, Changes: true}, BotLink, BotUnlink, BotJoin)
	add(BotRule{Standing: member}, BotOwn)
	add(BotRule{Standing: member, Changes: true}, BotDeviceAdd, BotHelp)
	add(BotRule{Standing: member, Changes: true, Secret: true}, BotDeviceLink, BotDeviceRotate)
	add(BotRule{Standing: operates}, BotGuests,
		StatusGet, ServerStatusGet, SubStatusGet,
		MemberList, MemberGet, DeviceList, DeviceGet, CellList, CellGet, CellForecastOf,
		CoreList, CoreGet, EntryList, EntryGet, TokenList, TokenGet, EventList, BackupGet,
		AlertList, AlertGet, AlertMutes, AlertRules)
	add(BotRule{Standing: operates, Changes: true}, BotAnswer, BotDecide, BotBroadcast, BotShown,
		MemberAdd, MemberSet, DeviceAdd, DeviceSet, DeviceRotate, DeviceRevoke, DeviceResetTraffic,
		CellSet, CoreSet, CoreRevoke, EntryRevoke, TokenRevoke, BackupRun, BackupVerify,
		AlertAck, AlertMute, AlertUnmute)
	add(BotRule{Standing: operates, Changes: true, Secret: true}, DeviceSubscribe, TokenCreate, BotCodeCreate)
	return t
}

// BotPerson is for whom the bot makes a call, as the server found them right now.
type BotPerson struct {
	Number mesh.TelegramID
	User   mesh.TelegramUser  // zero: nothing is known of them
	Admin  mesh.Administrator // to whom they are bound and who is admitted; zero: none
	Member mesh.Member        // who they are; zero: none
	// Settings are those of the mesh.
	Settings mesh.BotSettings
}

// Role is what the administrator's role permits here.
func (p BotPerson) Role() mesh.AdminRole {
	if p.Admin.Role.Includes(mesh.AdminOperator) {
		return mesh.AdminOperator
	}
	return p.Admin.Role
}

// Standing is how far the person's word goes.
func (p BotPerson) Standing() mesh.BotStanding {
	switch {
	case p.Admin.ID != "":
		return mesh.BotOperator
	case p.Member.ID != "":
		return mesh.BotMember
	}
	return mesh.BotAnyone
}

// Via is how audit records name the way of the person's calls.
func (p BotPerson) Via() string { return "telegram:" + p.Number.String() }

// Blocked says whether the bot is to leave the person without answers.
func (p BotPerson) Blocked() bool { return p.User.State == mesh.TelegramBlocked }

// As is in whose name the person makes a call under the rule. It returns ErrDenied.
func (p BotPerson) As(method string, r BotRule) (mesh.Actor, error) {
	deny := func(why string) error {
		return fmt.Errorf("admin: %s for a Telegram user: %s: %w", path.Base(method), why, mesh.ErrDenied)
	}
	switch {
	case p.Blocked() && method != BotWho.FullName():
		return "", deny("they are blocked")
	case r.Secret && p.Settings.NoSecrets:
		return "", mesh.WithHint(deny("nothing secret is shown in chats"), "an owner can allow it: meshctl admin config set bot.noSecrets=false")
	case r.Standing == mesh.BotOperator && p.Admin.ID == "":
		return "", deny("they are bound to no administrator")
	case r.Standing == mesh.BotOperator && !p.Role().Includes(r.Need):
		return "", deny(fmt.Sprintf("it needs the role %s, and theirs permits %s here", r.Need, p.Role()))
	case r.Standing == mesh.BotMember && p.Member.ID == "":
		return "", deny("they are no member")
	case r.Standing != mesh.BotMember && p.Admin.ID != "":
		return mesh.Actor("admin:" + string(p.Admin.ID)), nil
	case p.Member.ID != "":
		return mesh.Actor("member:" + string(p.Member.ID)), nil
	}
	return "guest", nil
}
