//go:build faults

package faults

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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

// tableFile names the document that the table is written into, between the
// markers; `make e2e-faults` sets it.
const (
	tableFile = "MESHCTL_FAULTS_TABLE"
	marker    = "<!-- measured: %s -->\n"
)

// report prints the table, and writes it after a whole run that succeeded.
func (l *Lab) report(succeeded bool) error {
	if len(l.rows)+len(l.notes) == 0 {
		return nil
	}
	text := table(l.rows) + noteTable(l.notes)
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
