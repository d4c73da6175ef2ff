package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/meshctl/meshctl/pkg/admin"
)

// noun is how objects of one kind are shown. Lists, single objects and names
// of every kind go through it.
type noun[T any] struct {
	one, many string
	empty     string // what to do when there is none
	id, label func(T) string
	columns   []column[T]
	fields    func(T, time.Time) []field
	refs      refsFunc // for completion
	asIs      bool     // the server's order means something; otherwise tables are in order of label
	prose     string   // head of the column that a narrow terminal cuts short
}

// a is the noun with its article.
func (n noun[T]) a() string {
	if strings.ContainsAny(n.one[:1], "aeiou") {
		return "an " + n.one
	}
	return "a " + n.one
}

// arg is how help writes the argument that names an object.
func (n noun[T]) arg() string { return strings.ToUpper(n.one) }

// column is one column of a list.
type column[T any] struct {
	head string
	cell func(v T, now time.Time) string
}

// text makes a column that does not depend on the time.
func text[T any](head string, cell func(T) string) column[T] {
	return column[T]{head, func(v T, _ time.Time) string { return cell(v) }}
}

// field is one line of a single object.
type field struct{ key, value string }

// printList writes a list in the form asked for.
func printList[T any](w io.Writer, f outputFormat, n noun[T], l admin.List[T], now time.Time) error {
	switch f {
	case outputJSON, outputYAML:
		if l.Items == nil {
			l.Items = []T{}
		}
		return f.print(w, l)
	case outputName:
		for _, v := range l.Items {
			if _, err := fmt.Fprintln(w, n.id(v)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(l.Items) == 0 {
		_, err := fmt.Fprintf(w, "no %s\n", strings.TrimSuffix(n.many+"; "+n.empty, "; "))
		return err
	}
	if !n.asIs {
		slices.SortStableFunc(l.Items, func(a, b T) int { return strings.Compare(n.label(a), n.label(b)) })
	}
	return printCut(w, n.columns, l.Items, now, n.prose)
}

// printTable writes aligned rows.
func printTable[T any](w io.Writer, columns []column[T], items []T, now time.Time, head bool) error {
	return printRows(w, rowsOf(columns, items, now, head))
}

// printCut is printTable with its head, where a terminal that is too narrow has the
// column named prose cut short.
func printCut[T any](w io.Writer, columns []column[T], items []T, now time.Time, prose string) error {
	rows := rowsOf(columns, items, now, true)
	cut(rows, slices.Index(rows[0], prose), columnsOf(w))
	return printRows(w, rows)
}

func rowsOf[T any](columns []column[T], items []T, now time.Time, head bool) [][]string {
	var rows [][]string
	if head {
		rows = append(rows, make([]string, len(columns)))
		for i, c := range columns {
			rows[0][i] = c.head
		}
	}
	for _, v := range items {
		line := make([]string, len(columns))
		for i, c := range columns {
			line[i] = clean(c.cell(v, now))
		}
		rows = append(rows, line)
	}
	return rows
}

func printRows(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range rows {
		row(tw, line)
	}
	return tw.Flush()
}

// row ends the last cell without padding.
func row(w io.Writer, cells []string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(cells, "\t")) // a tabwriter reports at Flush
}

// printOne writes a single object in the form asked for.
func printOne[T any](w io.Writer, f outputFormat, n noun[T], v T, now time.Time) error {
	switch f {
	case outputJSON, outputYAML:
		return f.print(w, v)
	case outputName:
		_, err := fmt.Fprintln(w, n.id(v))
		return err
	}
	return printFields(w, n.fields(v, now))
}

// printFields writes key and value in two columns, without empty values.
func printFields(w io.Writer, fields []field) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.value != "" {
			fmt.Fprintf(tw, "%s:\t%s\n", f.key, clean(f.value)) // a tabwriter reports at Flush
		}
	}
	return tw.Flush()
}

// clean replaces what would steer a terminal or turn the direction of a line:
// names, reasons and versions come from other people.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		bidi := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if unicode.IsControl(r) || bidi {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
