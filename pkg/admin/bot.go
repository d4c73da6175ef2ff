package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Metadata of every call that the bot makes for a Telegram user. Nobody but the
// server's own child can send it, and nothing but BotTable can be called with it.
const (
	// BotUserHeader is the user's number, decimal.
	BotUserHeader = "meshctl-telegram"
	// BotUpdateHeader names the update that asks for the call: a change that is
	// asked for twice under the same name is made once, and the second time refused
	// with ErrExists and the text ErrDone. Absent: the call must change nothing.
	BotUpdateHeader = "meshctl-update"
)

// The bot's own methods, which administrators and nodes cannot call. Who the user
// is, the server finds out for every call; see BotTable. A role is that of the
// administrator to whom an operator is bound.
var (
	// BotWho says whom the bot speaks with, and takes note of nothing.
	BotWho = Method[BotWhoRequest, BotSelf]{"BotWho", ""}
	// BotLink uses a code, BotUnlink ends the link.
	BotLink     = Method[BotLinkRequest, BotSelf]{"BotLink", ""}
	BotUnlink   = Method[None, None]{"BotUnlink", ""}
	BotLanguage = Method[BotLanguageRequest, None]{"BotLanguage", ""}
	// BotExpect notes what the bot waits for in the chat with the user; Asked "":
	// nothing any more.
	BotExpect = Method[mesh.TelegramChat, None]{"BotExpect", ""}
	// BotJoin asks to become a member.
	BotJoin = Method[BotJoinRequest, None]{"BotJoin", ""}

	// What members see and do: their own things alone.
	BotOwn          = Method[None, BotOwnView]{"BotOwn", ""}
	BotDeviceAdd    = Method[BotDeviceAddRequest, DeviceView]{"BotDeviceAdd", ""}
	BotDeviceLink   = Method[DeviceSubscribeRequest, SubscriptionLink]{"BotDeviceLink", ""}
	BotDeviceRotate = Method[Ref, SubscriptionLink]{"BotDeviceRotate", ""} // secret, name and link
	BotHelp         = Method[BotHelpRequest, None]{"BotHelp", ""}

	// What operators do beside the methods of administrators.
	BotAnswer    = Method[BotAnswerRequest, None]{"BotAnswer", operator}
	BotGuests    = Method[Page, List[BotGuest]]{"BotGuests", auditor}
	BotDecide    = Method[BotDecideRequest, BotDecided]{"BotDecide", operator}
	BotBroadcast = Method[BotBroadcastRequest, BotBroadcastView]{"BotBroadcast", operator}
	// BotShown notes that a token stands in a chat.
	BotShown = Method[mesh.TelegramShown, None]{"BotShown", operator}
)

// BotWhoRequest is the user as an update describes them.
type BotWhoRequest struct {
	Language string `json:"language,omitzero"` // of the user's app, IETF tag
}

// BotSelf is somebody as the bot knows them.
type BotSelf struct {
	Standing mesh.BotStanding `json:"standing"`
	// Admin is the administrator to whom the user is bound, Role what that permits
	// here; "": none.
	Admin  string         `json:"admin,omitzero"`
	Role   mesh.AdminRole `json:"role,omitzero"`
	Member string         `json:"member,omitzero"` // name; "": none
	// State is what became of a request to join.
	State    mesh.TelegramState `json:"state,omitzero"`
	Language string             `json:"language,omitzero"` // chosen; "": none was
	// Expect is what the bot waits for in the chat; nil: nothing.
	Expect   *mesh.TelegramChat `json:"expect,omitzero"`
	Settings mesh.BotSettings   `json:"settings"`
}

// BotLinkRequest shows a code that `admin bot link` or a member's card gave.
type BotLinkRequest struct {
	Code     string `json:"code"`
	Name     string `json:"name,omitzero"`     // as Telegram shows the user
	Language string `json:"language,omitzero"` // of the user's app
}

// BotLanguageRequest chooses a language; "": that of the app.
type BotLanguageRequest struct {
	Language string `json:"language"`
}

// BotJoinRequest is a stranger's.
type BotJoinRequest struct {
	Name     string `json:"name"` // as Telegram shows the user
	Text     string `json:"text,omitzero"`
	Language string `json:"language,omitzero"` // of the user's app
}

// BotOwnView is all that a member sees.
type BotOwnView struct {
	Member  mesh.Member  `json:"member"`
	Devices []DeviceView `json:"devices"`
	Cores   []CoreView   `json:"cores"`
	Limit   int          `json:"limit"` // how many devices the member may have
	Cells   []Ref        `json:"cells"` // names, where a device could be added
}

// BotDeviceAddRequest adds a device of the member's own. Cell "" is where the
// member's other devices are, or their core.
type BotDeviceAddRequest struct {
	Name string `json:"name"`
	Cell string `json:"cell,omitzero"`
}

// BotHelpRequest asks the operators for help.
type BotHelpRequest struct {
	Name string `json:"name,omitzero"` // as Telegram shows the user
	Text string `json:"text"`
}

// BotAnswerRequest is a reply to the message that brought a question.
type BotAnswerRequest struct {
	Message int64  `json:"message"` // which the reply is to
	Text    string `json:"text"`
}

// BotGuest is a stranger who asked to join, or is blocked.
type BotGuest struct {
	ID      mesh.TelegramUserID `json:"id"`
	User    string              `json:"user"` // TelegramID, decimal
	Name    string              `json:"name,omitzero"`
	State   mesh.TelegramState  `json:"state"`
	Created time.Time           `json:"created"`
}

// BotDecideRequest answers a guest: State "" approves.
type BotDecideRequest struct {
	Ref   string             `json:"ref"` // BotGuest.ID
	State mesh.TelegramState `json:"state,omitzero"`
	// Name is the new member's; "": the guest's. With Cell or Core a first device
	// is made.
	Name string `json:"name,omitzero"`
	Cell string `json:"cell,omitzero"`
	Core string `json:"core,omitzero"`
}

// BotDecided is what an approval made.
type BotDecided struct {
	Member *MemberView `json:"member,omitzero"`
}

// BotBroadcastRequest writes to the members of a cell, or with "" to all who are
// linked. Without Send it says how many that would be.
type BotBroadcastRequest struct {
	Cell string `json:"cell,omitzero"`
	Text string `json:"text"`
	Send bool   `json:"send,omitzero"`
}

// BotBroadcastView is how many people a text goes to.
type BotBroadcastView struct {
	Recipients int `json:"recipients"`
	Unlinked   int `json:"unlinked"` // members who have no Telegram account here
}

// BotCodeRequest makes a code for an administrator or for a member.
type BotCodeRequest struct {
	Admin  string        `json:"admin,omitzero"`
	Member string        `json:"member,omitzero"`
	Life   mesh.Duration `json:"life,omitzero"` // default 1 h, at most 7 days
}

// BotCode is the one time that a code is shown.
type BotCode struct {
	Code    string    `json:"code"`
	URL     string    `json:"url,omitzero"` // opens the bot with it, when its name is known
	Expires time.Time `json:"expires"`
}
