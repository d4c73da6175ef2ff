package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// What people are told to look at.
var (
	AlertList   = Method[AlertListRequest, List[AlertView]]{"AlertList", auditor}
	AlertGet    = Method[Ref, AlertView]{"AlertGet", auditor}
	AlertAck    = Method[AlertAckRequest, AlertView]{"AlertAck", operator}
	AlertMute   = Method[AlertMuteRequest, mesh.AlertMute]{"AlertMute", operator}
	AlertUnmute = Method[AlertUnmuteRequest, None]{"AlertUnmute", operator}
	AlertMutes  = Method[Page, List[mesh.AlertMute]]{"AlertMutes", auditor}
	AlertRules  = Method[Page, List[AlertRuleView]]{"AlertRules", auditor}
	// AlertRuleSet can keep people from being told, for good.
	AlertRuleSet = Method[AlertRuleSetRequest, AlertRuleView]{"AlertRuleSet", owner}

	// A webhook takes what is told out of the mesh.
	WebhookAdd    = Method[WebhookAddRequest, WebhookAdded]{"WebhookAdd", owner}
	WebhookList   = Method[Page, List[WebhookView]]{"WebhookList", auditor}
	WebhookRemove = Method[Ref, None]{"WebhookRemove", owner}
	// WebhookTest queues a notice that says nothing.
	WebhookTest = Method[Ref, WebhookView]{"WebhookTest", operator}
)

// AlertListRequest filters when set. Those that fire come first, the most severe
// of them before the others.
type AlertListRequest struct {
	Page
	All      bool          `json:"all,omitzero"` // those that are pending or over, too
	Rule     string        `json:"rule,omitzero"`
	Object   string        `json:"object,omitzero"`   // kind/id
	Severity mesh.Severity `json:"severity,omitzero"` // the least
}

// AlertView is an alert as shown.
type AlertView struct {
	mesh.Alert
	What  string    `json:"what,omitzero"`  // the rule in words
	Name  string    `json:"name,omitzero"`  // of the object, where it has one
	Muted time.Time `json:"muted,omitzero"` // until then nobody is told
}

// AlertAckRequest says that the caller takes care of an alert; Off, that nobody does.
type AlertAckRequest struct {
	Ref string `json:"ref"`
	Off bool   `json:"off,omitzero"`
}

// AlertMuteRequest keeps people from being told, of one rule, of one object, or
// with neither of anything. It replaces a mute of the same rule and object.
type AlertMuteRequest struct {
	Rule   string        `json:"rule,omitzero"`
	Object string        `json:"object,omitzero"` // kind/id, or kind/name
	Time   mesh.Duration `json:"time"`            // at most 30 days
	Reason string        `json:"reason,omitzero"`
}

// AlertUnmuteRequest names a mute as it was made; All: every one.
type AlertUnmuteRequest struct {
	Rule   string `json:"rule,omitzero"`
	Object string `json:"object,omitzero"`
	All    bool   `json:"all,omitzero"`
}

// AlertRuleView is a rule as it is set.
type AlertRuleView struct {
	Rule     string           `json:"rule"`
	What     string           `json:"what"`
	Advice   string           `json:"advice,omitzero"`
	Severity mesh.Severity    `json:"severity"`
	For      mesh.Duration    `json:"for,omitzero"`
	Clear    mesh.Duration    `json:"clear,omitzero"`
	Repeat   mesh.Duration    `json:"repeat,omitzero"`
	Events   []mesh.EventType `json:"events,omitzero"` // with which it begins
	Disabled bool             `json:"disabled,omitzero"`
	Changed  bool             `json:"changed,omitzero"` // by the configuration
	Firing   int              `json:"firing"`
}

// AlertRuleSetRequest changes what is not nil; Reset first makes the rule what the
// program has it be.
type AlertRuleSetRequest struct {
	Rule     string         `json:"rule"`
	Reset    bool           `json:"reset,omitzero"`
	Disabled *bool          `json:"disabled,omitzero"`
	Severity *mesh.Severity `json:"severity,omitzero"`
	For      *mesh.Duration `json:"for,omitzero"`
	Clear    *mesh.Duration `json:"clear,omitzero"`
	Repeat   *mesh.Duration `json:"repeat,omitzero"`
}

// WebhookAddRequest adds a webhook, or with Replace puts it in the place of the one
// of that name. Secret "" makes one.
type WebhookAddRequest struct {
	Name     string        `json:"name"`
	URL      string        `json:"url"`
	Secret   string        `json:"secret,omitzero"`
	Events   bool          `json:"events,omitzero"`
	Severity mesh.Severity `json:"severity,omitzero"`
	Replace  bool          `json:"replace,omitzero"`
}

// WebhookView is a webhook without its secrets.
type WebhookView struct {
	Name     string         `json:"name"`
	Host     string         `json:"host"`
	Events   bool           `json:"events,omitzero"`
	Severity mesh.Severity  `json:"severity,omitzero"`
	Created  time.Time      `json:"created"`
	Waiting  int            `json:"waiting"` // notices
	State    mesh.HookState `json:"state"`
}

// WebhookAdded is the one time that a secret which was made is shown.
type WebhookAdded struct {
	WebhookView
	Secret string `json:"secret,omitzero"`
}
