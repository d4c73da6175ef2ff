package admin

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// DeviceSubscribeRequest makes a device's subscription link.
type DeviceSubscribeRequest struct {
	Ref string `json:"ref"`
	// Replace ends the link that was made before.
	Replace bool `json:"replace,omitzero"`
}

// SubscriptionLink is the one time that a link is shown.
type SubscriptionLink struct {
	Device   mesh.DeviceID `json:"device"`
	URL      string        `json:"url"`
	Replaced bool          `json:"replaced"` // there was one before, which has ended
	// Warnings say why it does not answer yet.
	Warnings []string `json:"warnings,omitzero"`
}

// DeviceRotateRequest replaces what a device is known by. At least one of Label
// and Secret is set.
type DeviceRotateRequest struct {
	Ref    string `json:"ref"`
	Label  bool   `json:"label,omitzero"`
	Secret bool   `json:"secret,omitzero"` // the old one ends at once
	// Overlap is for how long the old label works; nil: as long as labels that are
	// replaced on a schedule.
	Overlap *mesh.Duration `json:"overlap,omitzero"`
}

// SubStatus is how the subscription service is set up.
type SubStatus struct {
	Name        mesh.ServerName              `json:"name,omitzero"` // "": it is off
	URL         string                       `json:"url,omitzero"`  // that links begin with
	Certificate mesh.SubscriptionCertificate `json:"certificate,omitzero"`
	// CertEnds is when the certificate that this server shows ends; zero: it has none.
	CertEnds time.Time     `json:"certificateEnds,omitzero"`
	Interval mesh.Duration `json:"updateInterval"`
	Rules    int           `json:"rules"` // of the operator's own
	Linked   int           `json:"linked"`
	Unlinked int           `json:"unlinked"` // devices without a link
	// Servers that answer, by the route that entries have.
	Servers  []string `json:"servers"`
	Warnings []string `json:"warnings,omitzero"`
}

// SubRule is a rule with its place, counted from 1 among the operator's own; the
// built-in ones have 0 and come after.
type SubRule struct {
	Place int `json:"place,omitzero"`
	mesh.AgentRule
}

// SubRuleAddRequest adds a rule before the one at Place; 0: after the others.
type SubRuleAddRequest struct {
	Rule  mesh.AgentRule `json:"rule"`
	Place int            `json:"place,omitzero"`
}

// SubRuleRemoveRequest removes the rule at a place, if it is the one that is
// meant: rules may have moved meanwhile.
type SubRuleRemoveRequest struct {
	Place int    `json:"place"`
	Match string `json:"match"`
}

// SubExplainRequest says who would ask for a device's link, and how.
type SubExplainRequest struct {
	Ref       string `json:"ref"`
	UserAgent string `json:"userAgent,omitzero"`
	Accept    string `json:"accept,omitzero"`
	Format    string `json:"format,omitzero"` // as ?format= says
}

// SubExplanation is what would be served, and why. It has no secret.
type SubExplanation struct {
	Device     mesh.DeviceID `json:"device"`
	DeviceName string        `json:"deviceName"`
	MemberName string        `json:"memberName"`
	Linked     time.Time     `json:"linked,omitzero"` // when its link was made; zero: it has none
	Standing   mesh.Standing `json:"standing"`
	Format     string        `json:"format"`
	Rule       string        `json:"rule"`
	Note       string        `json:"note,omitzero"`   // what was asked for and could not be had
	Notice     string        `json:"notice,omitzero"` // that the client shows
	// Fallback: a cell among Cells is not the device's own.
	Fallback bool      `json:"fallback"`
	Cells    []SubCell `json:"cells"`
	Nodes    []SubNode `json:"nodes"`
	Left     []SubLeft `json:"left"`
}

// SubCell is a cell whose names a document has.
type SubCell struct {
	Name  string         `json:"name"`
	State mesh.CellState `json:"state"`
	Guest bool           `json:"guest"` // the device is not of this cell
	// Cores are those its route names, in order; none: there is no route yet.
	Cores []string `json:"cores"`
}

// SubNode is one way in that a document has.
type SubNode struct {
	Name       string          `json:"name"`
	Cell       string          `json:"cell"`
	Address    string          `json:"address"` // host:port of the entry
	ServerName mesh.ServerName `json:"serverName"`
	Offer      mesh.Offer      `json:"offer"`
}

// SubLeft is one that a document does not have, and why.
type SubLeft struct {
	Name   string `json:"name"`
	Cell   string `json:"cell"`
	Reason string `json:"reason"`
}
