package mesh

import "time"

// BotConnection is how the bot gets on with Telegram.
type BotConnection string

// Connections of the bot; "" before the first attempt.
const (
	BotWorking  BotConnection = "working"
	BotConflict BotConnection = "conflict" // somebody else uses the token
	BotLimited  BotConnection = "limited"  // it is to wait
	BotToken    BotConnection = "token"    // Telegram does not know the token
	BotServer   BotConnection = "server"   // answers that are Telegram's fault
	BotNetwork  BotConnection = "network"  // no answer
	BotOther    BotConnection = "other"
)

// BotState is how the bot goes, as the server whose child it is writes it.
type BotState struct {
	Server   ServerID      `json:"server,omitzero"`
	State    BotConnection `json:"state,omitzero"`
	Since    time.Time     `json:"since,omitzero"`    // of State
	Failures int           `json:"failures,omitzero"` // in a row
	// Down is since when people know that the bot does not work; zero: it does, or
	// nobody was told.
	Down     time.Time `json:"down,omitzero"`
	Username string    `json:"username,omitzero"` // of the bot, without @
	API      int       `json:"api,omitzero"`      // which of the configured base URLs is used
	// What was done by that server since it has the bot.
	Ignored uint64  `json:"ignored,omitzero"` // updates
	Updates uint64  `json:"updates,omitzero"` // handled
	Sent    uint64  `json:"sent,omitzero"`    // messages
	Told    BotTold `json:"told,omitzero"`
}

// BotTold is up to where people were told of what concerns them.
type BotTold struct {
	Events int64     `json:"events,omitzero"` // revision of the last event that was looked at
	Ends   time.Time `json:"ends,omitzero"`   // who ends by then, and was to be told, is
	// Lost are cores whose members know that they are lost.
	Lost map[CoreID]bool `json:"lost,omitzero"`
	// Versions are those of the cores of members who are linked.
	Versions map[CoreID]string `json:"versions,omitzero"`
}
