package cmd

import (
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// leastProse is what is left of a column that is cut short.
const leastProse = 24

// columnsOf is how many columns a terminal has; 0: w is none.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// cut shortens the cells of one column so that rows are as wide as a terminal. Without
// a column (-1) or a terminal (0) they stay as they are.
func cut(rows [][]string, column, width int) {
	if column < 0 || width <= 0 {
		return
	}
	widest := make([]int, len(rows[0]))
	total := 2 * (len(rows[0]) - 1) // between columns
	for i := range widest {
		for _, r := range rows {
			widest[i] = max(widest[i], utf8.RuneCountInString(r[i]))
		}
		total += widest[i]
	}
	room := max(widest[column]-max(total-width, 0), leastProse)
	for _, r := range rows {
		if text := []rune(r[column]); len(text) > room {
			r[column] = string(text[:room-1]) + "…"
		}
	}
}
