//go:build kube

package kube

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// row is a line of the table: what was done, what clients noticed and how long
// it took until what is said.
type row struct {
	event, noticed string
	took           time.Duration
	until          string
}

// record adds a row to the table, which is shown when all tests are done.
func record(t testing.TB, event, noticed string, took time.Duration, until string) {
	t.Helper()
	shared.rows = append(shared.rows, row{event, noticed, took, until})
	t.Logf("%s: %s; %.1f s until %s", event, noticed, took.Seconds(), until)
}

// tableFile names the document that the table is written into, between the
// markers; `make e2e-kube` sets it.
const (
	tableFile = "MESHCTL_KUBE_TABLE"
	marker    = "<!-- measured: %s -->\n"
)

// report prints the table, and writes it after a whole run that succeeded.
func report(rows []row, succeeded bool) error {
	if len(rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("| event | clients | took |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.1f s until %s |\n", r.event, r.noticed, r.took.Seconds(), r.until)
	}
	text := b.String()
	fmt.Print(text)
	file := os.Getenv(tableFile)
	if file == "" || !succeeded || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), fmt.Sprintf(marker, "begin"))
	_, after, ok2 := strings.Cut(rest, fmt.Sprintf(marker, "end"))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the table", file)
	}
	page = []byte(before + fmt.Sprintf(marker, "begin") + "\n" + text + "\n" + fmt.Sprintf(marker, "end") + after)
	return os.WriteFile(file, page, 0o644)
}
