package mesh

import (
	"fmt"
	"net/url"
	"regexp"
	"time"
)

// Webhook is where notices are posted as JSON, each signed.
type Webhook struct {
	Name string `json:"name"`
	// URL may hold a secret, and Secret is the key of the signature
	// (HMAC-SHA-256).
	URL     Sealed    `json:"url"`
	Secret  Sealed    `json:"secret"`
	Host    string    `json:"host"`              // of the URL, for people
	Events  bool      `json:"events,omitzero"`   // every event too, not alerts alone
	Least   Severity  `json:"severity,omitzero"` // "": any
	Created time.Time `json:"created"`
}

// HookState is how a webhook goes. Who posts owns what is about posting, and who
// raises alerts owns Events.
type HookState struct {
	Name      string    `json:"name"`
	Succeeded time.Time `json:"succeeded,omitzero"` // when that began, or was noted last
	Failed    time.Time `json:"failed,omitzero"`
	Failures  int       `json:"failures,omitzero"` // in a row, as noted last
	Reason    string    `json:"reason,omitzero"`   // of the last failure; "": it works
	// Events is the revision of the last event that was queued for it.
	Events int64 `json:"events,omitzero"`
}

const (
	// MaxWebhooks bounds how many there are: each alert is written for each.
	MaxWebhooks    = 16
	maxHookURL     = 2 << 10
	maxHookName    = 32
	minHookSecret  = 16
	maxHookSecret  = 256
	hookNameFormat = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
)

var hookName = regexp.MustCompile(hookNameFormat)

// CheckHookName wants a short name of a-z, 0-9 and hyphens. It returns ErrInvalid.
func CheckHookName(name string) error {
	if len(name) > maxHookName || !hookName.MatchString(name) {
		return fmt.Errorf("mesh: webhook %q: want a name of a-z, 0-9 and hyphens, at most %d: %w", Quotable(name), maxHookName, ErrInvalid)
	}
	return nil
}

// ParseHookURL checks where a webhook posts to, and returns the host. It returns
// ErrInvalid, without the URL.
func ParseHookURL(text Secret) (host string, err error) {
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(text.Reveal()) > maxHookURL || u.Fragment != "" {
		return "", fmt.Errorf("mesh: URL of a webhook: want one of https or http with a host, at most %d bytes: %w", maxHookURL, ErrInvalid)
	}
	return u.Host, nil
}

// CheckHookSecret bounds the key of the signature. It returns ErrInvalid.
func CheckHookSecret(secret Secret) error {
	if n := len(secret.Reveal()); n < minHookSecret || n > maxHookSecret {
		return fmt.Errorf("mesh: secret of a webhook: want %d to %d bytes, not %d: %w", minHookSecret, maxHookSecret, n, ErrInvalid)
	}
	return nil
}
