//go:build kube

package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
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

// report prints the table, and writes it after a whole run that succeeded into the
// document that `make e2e-kube` names.
func report(rows []row, succeeded bool) error {
	if len(rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("| event | clients | took |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.1f s until %s |\n", r.event, r.noticed, r.took.Seconds(), r.until)
	}
	return lab.Report(b.String(), "MESHCTL_KUBE_TABLE", succeeded)
}
