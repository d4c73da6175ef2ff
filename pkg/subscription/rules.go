package subscription

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxAgent is how much of a User-Agent is looked at.
const maxAgent = 512

// Rules choose the format for a client.
type Rules struct {
	Agents []mesh.AgentRule // the operator's, which go before the built-in ones
}

// Choice is a format and what led to it.
type Choice struct {
	Format Format
	Rule   string // for people: "built-in: sing-box below 1.12"
	Note   string // what was asked for and could not be had; "" is none
}

// Choose takes format, which the client asks for by name, if there is one; else
// the first rule that matches userAgent; else what accept prefers; else base64.
func (r Rules) Choose(userAgent, accept, format string) Choice {
	if format == "" {
		return r.byAgent(userAgent, accept)
	}
	f, err := ParseFormat(format)
	if err == nil {
		return Choice{Format: f, Rule: "asked for by name"}
	}
	c := r.byAgent(userAgent, accept)
	c.Note = fmt.Sprintf("there is no format %q", mesh.Quotable(format))
	return c
}

func (r Rules) byAgent(userAgent, accept string) Choice {
	agent := strings.ToLower(userAgent[:min(len(userAgent), maxAgent)])
	for _, rule := range r.Agents {
		if matches(rule, agent) && CheckRule(rule) == nil { // a format of another release is passed over
			return Choice{Format: Format(rule.Format), Rule: "operator: " + describe(rule)}
		}
	}
	for _, rule := range builtIn() {
		if matches(rule, agent) {
			return Choice{Format: Format(rule.Format), Rule: "built-in: " + describe(rule)}
		}
	}
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/html", "application/xhtml+xml":
			return Choice{Format: FormatHTML, Rule: "Accept: text/html"}
		case typePAC:
			return Choice{Format: FormatPAC, Rule: "Accept: " + typePAC}
		}
	}
	return Choice{Format: FormatBase64, Rule: "no rule for this client"}
}

// matches looks at every place where a rule's text is found, since an app may
// name itself and its core. agent is in lower case.
func matches(rule mesh.AgentRule, agent string) bool {
	text := strings.ToLower(rule.Match)
	for {
		_, rest, found := strings.Cut(agent, text)
		if !found || text == "" {
			return false
		}
		if within(rule, rest) {
			return true
		}
		agent = rest
	}
}

func within(rule mesh.AgentRule, rest string) bool {
	if rule.From == "" && rule.Below == "" {
		return true
	}
	v, ok := versionAfter(rest)
	if !ok {
		return false
	}
	from, hasFrom := parseVersion(rule.From)
	below, hasBelow := parseVersion(rule.Below)
	return !(hasFrom && v.before(from)) && !(hasBelow && !v.before(below))
}

func describe(rule mesh.AgentRule) string {
	s := rule.Match
	if rule.From != "" {
		s += " from " + rule.From
	}
	if rule.Below != "" {
		s += " below " + rule.Below
	}
	return s
}

// CheckRule is what mesh.AgentRule.Validate cannot know: whether there is such a
// format, and whether any version can match. It returns ErrInvalid.
func CheckRule(rule mesh.AgentRule) error {
	if err := rule.Validate(); err != nil {
		return err
	}
	from, hasFrom := parseVersion(rule.From)
	below, hasBelow := parseVersion(rule.Below)
	if hasFrom && hasBelow && !from.before(below) {
		return fmt.Errorf("subscription: rule for %q: from %s below %s: matches nothing: %w",
			mesh.Quotable(rule.Match), rule.From, rule.Below, mesh.ErrInvalid)
	}
	_, err := ParseFormat(rule.Format)
	return err
}
