package mesh

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// AlertState is where an alert stands.
type AlertState string

// pending ──for the rule's time──▶ firing ──gone for the rule's time──▶ resolved
//
//	└──gone──▶ (forgotten)          ▲                                     │
//	                                └───────────── again ◀────────────────┘
const (
	AlertPending  AlertState = "pending" // its cause is there, not long enough yet
	AlertFiring   AlertState = "firing"
	AlertResolved AlertState = "resolved"
)

// Alert is one rule that holds, or held, for one object.
type Alert struct {
	ID       string     `json:"id"` // <rule>.<hash of the object>
	Rule     string     `json:"rule"`
	Severity Severity   `json:"severity"`
	Object   string     `json:"object"` // kind/id
	Cause    string     `json:"cause,omitzero"`
	Advice   string     `json:"advice,omitzero"` // what to do
	State    AlertState `json:"state"`
	Since    time.Time  `json:"since"`          // of the cause
	Changed  time.Time  `json:"changed"`        // of the state
	Told     time.Time  `json:"told,omitzero"`  // people, last
	Times    int        `json:"times,omitzero"` // it fired since it was last quiet for a day
	// Clearing is since when the cause is gone, while the alert still fires.
	Clearing time.Time `json:"clearing,omitzero"`
	// Acknowledged is who takes care of it; nobody is reminded of it meanwhile.
	Acknowledged *Acknowledged `json:"acknowledged,omitzero"`
}

// Acknowledged says who takes care of something, and since when.
type Acknowledged struct {
	By Actor     `json:"by"`
	At time.Time `json:"at"`
}

// AlertSettings change the rules that are built in: part of the configuration.
type AlertSettings struct {
	Rules []AlertRuleSettings `json:"rules,omitzero"` // by name, each once
	Mutes []AlertMute         `json:"mutes,omitzero"`
}

// AlertRuleSettings are what is changed of one rule.
type AlertRuleSettings struct {
	Rule     string   `json:"rule"`
	Disabled bool     `json:"disabled,omitzero"`
	Severity Severity `json:"severity,omitzero"` // "": the rule's own
	// For is how long the cause must last, Clear how long it must be gone, and
	// Repeat how often people are reminded. Nil: the rule's own.
	For    *Duration `json:"for,omitzero"`
	Clear  *Duration `json:"clear,omitzero"`
	Repeat *Duration `json:"repeat,omitzero"`
}

// AlertMute keeps alerts from being told until a time. They are still listed.
type AlertMute struct {
	Rule   string    `json:"rule,omitzero"`   // "": any
	Object string    `json:"object,omitzero"` // kind/id; "": any
	Until  time.Time `json:"until"`
	By     Actor     `json:"by"`
	Reason string    `json:"reason,omitzero"`
}

// MaxMutes bounds how many mutes there are at a time.
const MaxMutes = 64

// maxRuleTime bounds For, Clear and Repeat.
const maxRuleTime = 30 * 24 * time.Hour

// Known says whether s is one of the severities.
func (s Severity) Known() bool { return slices.Contains([]Severity{Info, Warning, Critical}, s) }

func (s AlertSettings) validate() []error {
	var errs []error
	seen := map[string]bool{}
	for _, r := range s.Rules {
		if seen[r.Rule] {
			errs = append(errs, fmt.Errorf("rules: %q is there twice", Quotable(r.Rule)))
		}
		seen[r.Rule] = true
		if r.Severity != "" && !r.Severity.Known() {
			errs = append(errs, fmt.Errorf("rules.%s.severity %q: want info, warning or critical", Quotable(r.Rule), Quotable(string(r.Severity))))
		}
		for name, d := range map[string]*Duration{"for": r.For, "clear": r.Clear, "repeat": r.Repeat} {
			if d != nil && (*d < 0 || time.Duration(*d) > maxRuleTime) {
				errs = append(errs, fmt.Errorf("rules.%s.%s %v: want 0 to %v", Quotable(r.Rule), name, *d, maxRuleTime))
			}
		}
	}
	if len(s.Mutes) > MaxMutes {
		errs = append(errs, fmt.Errorf("mutes: %d, want at most %d", len(s.Mutes), MaxMutes))
	}
	for _, m := range s.Mutes {
		if m.Until.IsZero() {
			errs = append(errs, errors.New("mutes: one without an end"))
		}
	}
	return errs
}
