package mesh

import (
	"errors"
	"strings"
)

// Error kinds. A kind exists where a caller acts differently; every error that
// leaves a package of ours wraps at most one of them.
var (
	// ErrInvalid: the input can never succeed as it is.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: the named object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: an object of that id or name exists already.
	ErrExists = errors.New("exists already")
	// ErrConflict: the state changed or forbids it; look again, then retry.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: nothing is wrong with the request; retry later.
	ErrUnavailable = errors.New("unavailable")
	// ErrDenied: the caller may not do this.
	ErrDenied = errors.New("denied")
)

// DoneBefore is the text of an ErrExists that refuses a change because it was
// made before.
const DoneBefore = "it was done already"

// Hinted is an error that carries the operator's next step.
type Hinted struct {
	Err  error
	Hint string
}

func (h *Hinted) Error() string { return h.Err.Error() }

// Unwrap returns the cause.
func (h *Hinted) Unwrap() error { return h.Err }

// WithHint adds what the operator should do next. The command line prints it
// on a line of its own. A nil error stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Hinted{Err: err, Hint: hint}
}

// Hint returns the outermost hint in err's chain, or "".
func Hint(err error) string {
	if h, ok := errors.AsType[*Hinted](err); ok {
		return h.Hint
	}
	return ""
}

// Plain is err's text for people, for a table or a page: on one line, without
// the package that says it and without the kind at its end, when that repeats
// for programs what stands before it.
func Plain(err error) string {
	var parts []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		for _, kind := range []error{ErrInvalid, ErrUnavailable, ErrDenied} {
			line = strings.TrimSuffix(line, ": "+kind.Error())
		}
		if head, rest, ok := strings.Cut(line, ": "); ok && strings.Trim(head, "abcdefghijklmnopqrstuvwxyz") == "" {
			line = rest
		}
		parts = append(parts, line)
	}
	return strings.Join(parts, "; ")
}

// Kind returns the kind that err wraps, or nil.
func Kind(err error) error {
	for _, k := range []error{ErrInvalid, ErrNotFound, ErrExists, ErrConflict, ErrUnavailable, ErrDenied} {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}
