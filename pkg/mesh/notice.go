package mesh

import (
	"strings"
	"time"
)

// NoticeKind names what is to be said, and so which text says it.
type NoticeKind string

// Kinds of notices. Their Params are in braces.
const (
	NoticeAlert     NoticeKind = "alert"      // Alert {name}: of its object {more}: and so many others of its rule
	NoticeResolved  NoticeKind = "resolved"   // Alert {name} {more}
	NoticeEvent     NoticeKind = "event"      // Event; webhooks alone
	NoticeTest      NoticeKind = "test"       // webhooks alone
	NoticeTokenUsed NoticeKind = "token-used" // {token, role, node, name, address}
	NoticeTokenOver NoticeKind = "token-over" // {token, role, name, state}
	NoticeGuest     NoticeKind = "guest"      // {user, name, text}: asks to join; user is a TelegramUserID
	NoticeApproved  NoticeKind = "approved"   // {member}
	NoticeDeclined  NoticeKind = "declined"
	NoticeHelp      NoticeKind = "help"            // {user, name, member, text}: a member asks
	NoticeAnswer    NoticeKind = "answer"          // {text}: the operator's
	NoticeBroadcast NoticeKind = "broadcast"       // {text}
	NoticeLinked    NoticeKind = "linked"          // {name, kind}: somebody used a code
	NoticeCoreLost  NoticeKind = "core-lost"       // {core}: to its member
	NoticeCoreBack  NoticeKind = "core-back"       // {core}
	NoticeCoreNew   NoticeKind = "core-updated"    // {core, version}
	NoticeCoreCert  NoticeKind = "core-expiring"   // {core, until}
	NoticeExpiring  NoticeKind = "device-expiring" // {device, until}
	NoticeSpent     NoticeKind = "device-spent"    // {device}: its traffic is used up
	NoticeCellMoved NoticeKind = "cell-moved"      // {cell, state}: compromised, restored, retired
)

// Notice is one message on its way out: to a chat of the bot or to a webhook. It
// waits in the store until it is sent, or is dropped after a day.
type Notice struct {
	ID      string            `json:"id"` // rises in the order of writing
	To      string            `json:"to"` // telegram/<id> or hook/<name>
	Kind    NoticeKind        `json:"kind"`
	Created time.Time         `json:"created"`
	Params  map[string]string `json:"params,omitzero"`
	Alert   *Alert            `json:"alert,omitzero"`
	Event   *Event            `json:"event,omitzero"`
	// Delete is a message in the same chat that goes away with it; 0: none.
	Delete int64 `json:"delete,omitzero"`
}

const (
	toTelegram = "telegram/"
	toHook     = "hook/"
)

// ToTelegram is the address of a chat of the bot.
func ToTelegram(id string) string { return toTelegram + id }

// ToHook is the address of a webhook.
func ToHook(name string) string { return toHook + name }

// Telegram returns the chat that the notice is for; false when it is for another.
func (n Notice) Telegram() (string, bool) { return strings.CutPrefix(n.To, toTelegram) }

// Hook returns the name of the webhook that the notice is for.
func (n Notice) Hook() (string, bool) { return strings.CutPrefix(n.To, toHook) }
