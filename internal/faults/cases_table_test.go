//go:build faults

package faults

import (
	"fmt"
	"strings"
)

// note is a line of the second table: what was tried, and what came of it.
type note struct{ tried, result string }

// Note adds a line to the second table.
func (l *Lab) Note(tried, result string, args ...any) {
	l.notes = append(l.notes, note{tried, fmt.Sprintf(result, args...)})
}

func noteTable(notes []note) string {
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| tried | result |\n|---|---|\n")
	for _, n := range notes {
		fmt.Fprintf(&b, "| %s | %s |\n", n.tried, n.result)
	}
	return b.String()
}
