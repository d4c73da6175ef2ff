package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Window is how far back events count. It is longer than any rule's Lasts, and
// than any alert takes to clear.
const Window = 49 * time.Hour

// Rule says when people are to be told, and what.
type Rule struct {
	Name     string
	Severity mesh.Severity
	What     string // what is the case, for people
	Advice   string // what to do, when the cause itself does not say it

	// For is how long the cause must last before anybody is told, Clear how long it
	// must be gone, and Repeat how often people are reminded; 0: never.
	For, Clear, Repeat time.Duration

	// Raise are events that begin the cause, and End those that end it. A rule
	// without Raise is about the state, and whoever runs the rules looks at that.
	Raise, End []mesh.EventType
	// Lasts is how long such an event counts by itself: the rule is then about
	// something that happened, and nobody is told that it is over. 0: until End.
	Lasts time.Duration
	// Least is how many such events there must be within Lasts; 0 is 1.
	Least int
	// As makes one alert of all objects: the object it is about. "": one for each.
	As string

	// Fires and Over are events that are written when the alert begins and ends to
	// fire, for rules about the state.
	Fires, Over mesh.EventType

	// Expr is the rule in PromQL, over metrics that say it more directly than the
	// count of alerts; "": that count.
	Expr string

	fixed bool // Severity was set by the configuration
}

// happened says whether the rule is about an event and not about a state.
func (r Rule) happened() bool { return r.Lasts > 0 }

// Condition is a rule that holds for an object now.
type Condition struct {
	Rule     string
	Object   string // kind/id
	Cause    string // stable for as long as it is the same
	Advice   string // "": the rule's
	Severity mesh.Severity
	Since    time.Time // zero: since now
}

// ID is the id of the alert.
func (c Condition) ID() string { return ID(c.Rule, c.Object) }

// ID is the id of the alert of a rule for an object.
func ID(rule, object string) string {
	sum := sha256.Sum256([]byte(object))
	return rule + "." + hex.EncodeToString(sum[:6])
}

// rank orders severities; one that is unknown is the least.
func rank(s mesh.Severity) int {
	return slices.Index([]mesh.Severity{mesh.Info, mesh.Warning, mesh.Critical}, s)
}

// Reaches says whether s is at least as severe as least; "" is reached by all.
func Reaches(s, least mesh.Severity) bool { return rank(s) >= rank(least) }
