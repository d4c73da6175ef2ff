package admin

import "github.com/meshctl/meshctl/pkg/mesh"

// What administrators do about the bot.
var (
	// BotCodeCreate makes a code that links whoever shows it to the bot. For another
	// administrator it needs owner; the handler checks.
	BotCodeCreate = Method[BotCodeRequest, BotCode]{"BotCodeCreate", operator}
	BotUserList   = Method[Page, List[BotUserView]]{"BotUserList", auditor}
	// BotUserSet needs owner when it unlinks another administrator; the handler checks.
	BotUserSet   = Method[BotUserSetRequest, BotUserView]{"BotUserSet", operator}
	BotStatusGet = Method[None, BotStatus]{"BotStatusGet", auditor}
)

// BotUserView is a Telegram user whom the bot knows.
type BotUserView struct {
	mesh.TelegramUser
	AdminName  string `json:"adminName,omitzero"`
	MemberName string `json:"memberName,omitzero"`
}

// BotUserSetRequest names a user by id or by Telegram's number.
type BotUserSetRequest struct {
	Ref     string `json:"ref"`
	Blocked *bool  `json:"blocked,omitzero"`
	Unlink  bool   `json:"unlink,omitzero"`
}

// BotStatus is how the bot goes.
type BotStatus struct {
	mesh.BotState
	// Configured says whether the server that answers has a token.
	Configured bool `json:"configured"`
	Linked     int  `json:"linked"` // Telegram users
	Asking     int  `json:"asking"` // strangers who want to join
	Blocked    int  `json:"blocked"`
	Waiting    int  `json:"waiting"` // messages that are to be sent
	// Problems are what somebody should look at, in words.
	Problems []string `json:"problems,omitzero"`
}
