package mesh

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ServerName is a folded, checked DNS name as it stands in a ClientHello. The
// only way to one is ParseServerName, for what is written and what is looked up
// alike.
type ServerName string

// ParseServerName folds and checks a name: ASCII letters become lower case, one
// trailing dot is dropped, every label is 1 to 63 letters, digits and inner
// hyphens, the whole is at most 253 bytes and has at least two labels, and the
// last label is not numeric (so no IP literal passes). It returns ErrInvalid.
func ParseServerName(s string) (ServerName, error) {
	bad := func(why string) (ServerName, error) {
		return "", fmt.Errorf("mesh: parse server name %q: %s: %w", Quotable(s), why, ErrInvalid)
	}
	n := strings.TrimSuffix(s, ".")
	if n == "" || len(n) > 253 {
		return bad("want 1 to 253 bytes")
	}
	n = foldASCII(n)
	labels := strings.Split(n, ".")
	if len(labels) < 2 {
		return bad("want at least two labels")
	}
	for _, l := range labels {
		if !isLDH(l) {
			return bad("labels are letters, digits and inner hyphens, 1 to 63 bytes")
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return bad("an IP address is not a server name")
	}
	return ServerName(n), nil
}

func foldASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func isLDH(l string) bool {
	if len(l) == 0 || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Under says whether n is exactly one label below suffix.
func (n ServerName) Under(suffix ServerName) bool {
	label, rest, ok := strings.Cut(string(n), ".")
	return ok && label != "" && rest == string(suffix)
}

// Child is label.n, checked. It returns ErrInvalid.
func (n ServerName) Child(label string) (ServerName, error) {
	if strings.Contains(label, ".") {
		return "", fmt.Errorf("mesh: label %q: one label, no dot: %w", Quotable(label), ErrInvalid)
	}
	return ParseServerName(label + "." + string(n))
}

// NewLabel returns a random DNS label that is not guessable (80 bits) and looks
// like nothing in particular.
func NewLabel() string { return strings.TrimPrefix(newID("l"), "l-") }

// MaxNameLen is the longest label an object may carry, in bytes.
const MaxNameLen = 100

// CheckName checks a mutable label that people give to an object: 1 to 100
// bytes of valid UTF-8 without control characters, no space at either end, and
// nothing that reads as an id. Case matters and every other character is
// allowed. It returns ErrInvalid.
func CheckName(s string) error {
	bad := func(why string) error {
		return fmt.Errorf("mesh: name %q: %s: %w", Quotable(s), why, ErrInvalid)
	}
	switch {
	case s == "" || len(s) > MaxNameLen:
		return bad("want 1 to 100 bytes")
	case !utf8.ValidString(s):
		return bad("not valid UTF-8")
	case strings.TrimSpace(s) != s:
		return bad("no space at either end")
	case strings.ContainsFunc(s, unicode.IsControl):
		return bad("no control characters")
	case IsID(s):
		return bad("looks like an id")
	}
	return nil
}

// IsID says whether s has the form of any object's id.
func IsID(s string) bool {
	kind, _, ok := strings.Cut(s, "-")
	if !ok {
		return false
	}
	_, err := parseID(kind, s)
	return err == nil
}
