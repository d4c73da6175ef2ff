//go:build faults

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// Row is a line of the table.
type Row struct {
	Event string
	Measured
	// Recovery is the time until all is as before, as What says; "" in What is
	// the time to the last failure that a client saw.
	Recovery time.Duration
	What     string
}

// Record adds a row to the table, which is shown when all tests are done.
func (l *Lab) Record(t testing.TB, event string, m Measured, recovery time.Duration, what string) {
	t.Helper()
	if what == "" {
		recovery = m.Trouble
	}
	l.rows = append(l.rows, Row{event, m, recovery, what})
	t.Logf("recovery: %v %s", recovery.Round(time.Millisecond), what)
}

// report prints the table, and writes it after a whole run that succeeded into the
// document that `make e2e-faults` names.
func (l *Lab) report(succeeded bool) error {
	if len(l.rows)+len(l.notes) == 0 {
		return nil
	}
	return lab.Report(table(l.rows)+noteTable(l.notes), "MESHCTL_FAULTS_TABLE", succeeded)
}

func table(rows []Row) string {
	var b strings.Builder
	b.WriteString("| event | new, failed | slowest new | open, lost | longest stall | recovery |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		recovery := strings.TrimSpace(seconds(r.Recovery) + " " + r.What)
		if r.What == "" && r.Recovery == 0 {
			recovery = "nothing failed"
		}
		fmt.Fprintf(&b, "| %s | %d, %d | %s | %d, %d | %s | %s |\n", r.Event, r.New, r.FailedNew, seconds(r.SlowestNew), r.Held, r.LostOpen, seconds(r.Stall), recovery)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
