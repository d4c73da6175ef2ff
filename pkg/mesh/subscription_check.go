package mesh

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is shown by every client of the mesh.
const (
	maxTitle      = 60  // characters
	maxAnnounce   = 200 // characters, as much as clients show
	maxLink       = 2000
	maxMatch      = 100
	maxAgentRules = 64
	minInterval   = time.Minute
	maxInterval   = 30 * 24 * time.Hour
)

// linkSchemes are those that a client opens for its user.
var linkSchemes = []string{"https", "http", "mailto", "tg"}

// validate returns every fault, each without its kind.
func (s SubscriptionSettings) validate() []error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(checkServiceName(s.Name))
	switch s.Certificate {
	case "", SubscriptionFiles, SubscriptionACME:
	default:
		add(fmt.Errorf("certificate %q: want files or acme", Quotable(string(s.Certificate))))
	}
	add(checkShown("title", s.Title, maxTitle))
	add(checkShown("announce", s.Announce, maxAnnounce))
	add(checkLink("supportUrl", s.SupportURL))
	add(checkLink("pageUrl", s.PageURL))
	if i := time.Duration(s.UpdateInterval); i != 0 && (i < minInterval || i > maxInterval) {
		add(fmt.Errorf("updateInterval %v: want 0 (12h) or %v to %v", i, minInterval, maxInterval))
	}
	if len(s.Agents) > maxAgentRules {
		add(fmt.Errorf("agents has %d rules: want at most %d", len(s.Agents), maxAgentRules))
	}
	for i, r := range s.Agents {
		if err := r.validate(); err != nil {
			add(fmt.Errorf("agents[%d]: %w", i, err))
		}
	}
	return errs
}

func checkServiceName(name ServerName) error {
	if name == "" {
		return nil
	}
	if folded, err := ParseServerName(string(name)); err != nil || folded != name {
		return fmt.Errorf("name %q: want a DNS name in lower case, such as sub.example.net", Quotable(string(name)))
	}
	return nil
}

// checkShown allows what fits a line of a client: no line breaks, nothing that
// turns the direction of the text.
func checkShown(what, text string, most int) error {
	odd := func(r rune) bool {
		return unicode.IsControl(r) || r == utf8.RuneError || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	switch {
	case utf8.RuneCountInString(text) > most:
		return fmt.Errorf("%s of %d characters: want at most %d", what, utf8.RuneCountInString(text), most)
	case strings.ContainsFunc(text, odd):
		return fmt.Errorf("%s has a line break or another control character", what)
	case strings.TrimSpace(text) != text:
		return fmt.Errorf("%s begins or ends with a space", what)
	}
	return nil
}

func checkLink(what, link string) error {
	if link == "" {
		return nil
	}
	u, err := url.Parse(link)
	if err != nil || len(link) > maxLink || !slices.Contains(linkSchemes, u.Scheme) || u.Host+u.Opaque == "" ||
		strings.ContainsFunc(link, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%s %q: want a link of one of the schemes %s", what, Quotable(link), strings.Join(linkSchemes, ", "))
	}
	return nil
}

var agentVersion = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,3}$`)

// Validate checks all but whether there is such a format. It returns ErrInvalid.
func (r AgentRule) Validate() error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("mesh: rule for %q: %w: %w", Quotable(r.Match), err, ErrInvalid)
	}
	return nil
}

func (r AgentRule) validate() error {
	if r.Match == "" || len(r.Match) > maxMatch || strings.ContainsFunc(r.Match, func(c rune) bool { return c < ' ' || c > '~' }) {
		return fmt.Errorf("match %q: want what a User-Agent contains: 1 to %d characters of ASCII", Quotable(r.Match), maxMatch)
	}
	for name, v := range map[string]string{"from": r.From, "below": r.Below} {
		if v != "" && !agentVersion.MatchString(v) {
			return fmt.Errorf("%s %q: want a version such as 1.12", name, Quotable(v))
		}
	}
	if r.Format == "" {
		return fmt.Errorf("no format")
	}
	return nil
}

// validate returns every fault, each without its kind.
func (r LabelRotation) validate() []error {
	var errs []error
	every, overlap := time.Duration(r.Every), time.Duration(r.Overlap)
	if every != 0 && every < minCertLife {
		errs = append(errs, fmt.Errorf("every %v: want 0 (never) or %v and more", every, minCertLife))
	}
	if overlap < 0 {
		errs = append(errs, fmt.Errorf("overlap %v: want 0 (%v) or more", overlap, DefaultLabelOverlap))
	}
	if every > 0 && r.OverlapOrDefault() > every {
		errs = append(errs, fmt.Errorf("overlap %v is longer than every %v: labels would pile up", r.OverlapOrDefault(), every))
	}
	return errs
}
