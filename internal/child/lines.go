package child

import (
	"bytes"
	"strings"

	"golang.org/x/time/rate"
)

const (
	// A line is redacted whole, up to maxLine bytes, and shown up to maxShown.
	maxLine  = 16 << 10
	maxShown = 1 << 10
	// lineBurst lines may come at once, as of a panic, and lineRate a second.
	lineBurst = 200
	lineRate  = 5
)

// lines puts what a child writes into the log, bounded in length and number. It
// has one writer at a time.
type lines struct {
	p     *Process
	often *rate.Limiter
	buf   []byte
	over  bool // the line is longer than buf may be; the rest is dropped
	drops int
	first string // line that tells why it broke down
}

func newLines(p *Process) *lines {
	return &lines{p: p, often: rate.NewLimiter(lineRate, lineBurst)}
}

// Write never fails: a child must not end for what it says.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte{'\n'})
		l.add(part)
		if whole {
			l.end()
		}
		b = rest
	}
	return n, nil
}

func (l *lines) add(part []byte) {
	room := maxLine - len(l.buf)
	l.over = l.over || len(part) > room
	l.buf = append(l.buf, part[:min(len(part), room)]...)
}

func (l *lines) end() {
	text := l.clean(string(l.buf))
	l.buf, l.over = l.buf[:0], false
	if strings.TrimSpace(text) == "" {
		return
	}
	if l.first == "" && brokeDown(text) {
		l.first = text
	}
	if !l.often.Allow() {
		l.drops++
		return
	}
	l.p.Log.Warn("child said", "unit", l.p.Name, "line", text)
}

// clean redacts a line before it is cut, so that no half of a secret is left.
func (l *lines) clean(s string) string {
	s = strings.ToValidUTF8(strings.TrimRight(s, "\r"), "?")
	if l.p.Redact != nil {
		s = l.p.Redact(s)
	}
	if len(s) > maxShown || l.over {
		s = strings.ToValidUTF8(s[:min(len(s), maxShown)], "") + " …"
	}
	return s
}

// brokeDown says whether a line is one with which Go ends a process.
func brokeDown(s string) bool {
	for _, begin := range []string{"panic: ", "fatal error: ", "runtime: out of memory", "error: "} {
		if strings.HasPrefix(s, begin) {
			return true
		}
	}
	return false
}

// flush ends what the child did not, and tells what was dropped. Call it when
// nothing writes any more.
func (l *lines) flush() {
	l.end()
	if l.drops > 0 {
		l.p.Log.Warn("lines of child dropped", "unit", l.p.Name, "count", l.drops)
	}
}

// panicked is the line that tells why the child broke down; "" when none did.
func (l *lines) panicked() string { return l.first }
