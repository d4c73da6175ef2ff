//go:build clients

package clients

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// tableFile names the document that the table is written into, between the
// markers; `make e2e-clients` sets it.
const (
	tableFile = "MESHCTL_CLIENTS_TABLE"
	marker    = "<!-- tested: %s -->\n"
)

// table is what passed: a row for each client, a column for each offer.
type table struct {
	mu    sync.Mutex // guards what follows
	rows  []string
	cells map[string]map[mesh.Offer]string
}

// row adds an empty row, so that rows stand in the order of the tests.
func (t *table) row(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cells == nil {
		t.cells = map[string]map[mesh.Offer]string{}
	}
	if t.cells[name] == nil {
		t.rows = append(t.rows, name)
		t.cells[name] = map[mesh.Offer]string{}
	}
}

func (t *table) set(row string, o mesh.Offer, text string) {
	t.row(row)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[row][o] = text
}

// report prints the table, and writes it after a whole run that succeeded.
func (t *table) report(succeeded bool) error {
	if len(t.rows) == 0 {
		return nil
	}
	text := t.String()
	fmt.Print(text)
	file := os.Getenv(tableFile)
	if file == "" || !succeeded || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(doc), fmt.Sprintf(marker, "begin"))
	_, after, ok2 := strings.Cut(rest, fmt.Sprintf(marker, "end"))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the table", file)
	}
	doc = []byte(before + fmt.Sprintf(marker, "begin") + "\n" + text + "\n" + fmt.Sprintf(marker, "end") + after)
	return os.WriteFile(file, doc, 0o644)
}

// String is the table in Markdown, without the columns in which nothing is.
func (t *table) String() string {
	used := slices.DeleteFunc(mesh.Offers(), func(o mesh.Offer) bool {
		return !slices.ContainsFunc(t.rows, func(r string) bool { return t.cells[r][o] != "" })
	})
	var b strings.Builder
	b.WriteString("| client |")
	for _, o := range used {
		fmt.Fprintf(&b, " %s |", o)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(used)) + "|\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s |", r)
		for _, o := range used {
			text := t.cells[r][o]
			if text == "" {
				text = "–"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String()
}
