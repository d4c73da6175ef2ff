package mesh

import (
	"fmt"
	"strconv"
	"time"
)

// TelegramID is a user's or a private chat's number, as Telegram gives it; the
// chat with a user has the user's number. Groups have negative ones.
type TelegramID int64

// ParseTelegramID reads the decimal form. It returns ErrInvalid.
func ParseTelegramID(s string) (TelegramID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("mesh: parse Telegram id %q: want the number of a user: %w", Quotable(s), ErrInvalid)
	}
	return TelegramID(n), nil
}

func (t TelegramID) String() string { return strconv.FormatInt(int64(t), 10) }

// TelegramState is where somebody stands who is neither a member nor an
// administrator.
type TelegramState string

// The states of a TelegramUser. Who is linked and not blocked has none.
const (
	TelegramAsked    TelegramState = "asked"    // to join, and waits for an answer
	TelegramDeclined TelegramState = "declined" // may ask again
	TelegramBlocked  TelegramState = "blocked"  // the bot no longer answers
)

// TelegramUser is somebody whom the bot knows: who is linked to an administrator
// or a member or both, or asked to join, or is blocked. Of others nothing is kept.
type TelegramUser struct {
	ID       TelegramUserID `json:"id"`
	Telegram string         `json:"telegram"` // TelegramID, decimal
	Name     string         `json:"name,omitzero"`
	Admin    AdminID        `json:"admin,omitzero"`
	Member   MemberID       `json:"member,omitzero"`
	State    TelegramState  `json:"state,omitzero"`
	// Language is that of the user's app when they came, until they choose one. What
	// is sent to them unasked is in it.
	Language string    `json:"language,omitzero"`
	Created  time.Time `json:"created"`
}

// BotStanding is how far somebody's word goes at the bot.
type BotStanding string

// Standings. An operator is bound to an administrator; what the administrator's
// role does not permit, the bot does not either, and never more than the role
// operator permits. Who is both a member and an administrator may do both.
const (
	BotAnyone   BotStanding = "anyone"
	BotMember   BotStanding = "member"
	BotOperator BotStanding = "operator"
)

// TelegramCode links a Telegram user once, when they show the code. It is stored
// under a hash of it. Exactly one of Admin and Member is set.
type TelegramCode struct {
	ID      string    `json:"id"` // hex of SHA-256 of the code
	Admin   AdminID   `json:"admin,omitzero"`
	Member  MemberID  `json:"member,omitzero"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// TelegramChat is what the bot waits for in a chat: an answer in words. It is
// kept in the store so that whichever server leads next understands it.
type TelegramChat struct {
	ID string `json:"id"` // TelegramID, decimal
	// Asked names the question, and Data what it is about, as pkg/bot encodes it.
	Asked string    `json:"asked"`
	Data  string    `json:"data,omitzero"`
	Until time.Time `json:"until"`
}

// TelegramThread says to whom a reply to one message of the bot's goes.
type TelegramThread struct {
	ID      string    `json:"id"`   // <chat>.<message>
	User    string    `json:"user"` // TelegramID, decimal
	Created time.Time `json:"created"`
}

// TelegramShown is where a join token was shown, to be taken away again.
type TelegramShown struct {
	Token   TokenID   `json:"token"`
	Chat    string    `json:"chat"` // TelegramID, decimal
	Message int64     `json:"message"`
	Expires time.Time `json:"expires"`
}

// BotSettings are what all of the bot's answers obey: part of the configuration.
type BotSettings struct {
	// NoSecrets keeps whatever holds a secret out of chats: links, codes, tokens.
	NoSecrets bool `json:"noSecrets,omitzero"`
	// NoGuests leaves strangers without an answer.
	NoGuests bool `json:"noGuests,omitzero"`
	// DeviceLimit is how many devices members may have when they add them
	// themselves, unless their own limit says otherwise; 0: none.
	DeviceLimit int `json:"deviceLimit,omitzero"`
}
