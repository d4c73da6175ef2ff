package cmd

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A narrow terminal has causes cut short; what is no terminal has all of them.
func TestANarrowTerminalHasCausesCutShort(t *testing.T) {
	cause := strings.Repeat("the cluster does not answer, ", 8)
	l := admin.List[admin.AlertView]{Items: []admin.AlertView{
		{Alert: mesh.Alert{ID: "a1", Rule: "kube-unreachable", Object: "kube/n", Severity: mesh.Warning, State: "firing", Cause: cause}},
		{Alert: mesh.Alert{ID: "a2", Rule: "kube-conflict", Object: "kube/s", Severity: mesh.Warning, State: "firing", Cause: "short"}},
	}}
	var all bytes.Buffer
	if err := printList(&all, outputTable, alertNoun(), l, time.Now()); err != nil || !strings.Contains(all.String(), cause) {
		t.Errorf("in a file there is %q (%v)", all.String(), err)
	}
	person, program := terminal(t)
	if columnsOf(program) != 0 && columnsOf(program) != 80 { // a pseudo-terminal has no size at first
		t.Errorf("before it was said, there are %d columns", columnsOf(program))
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 110}); err != nil {
		t.Fatal(err)
	}
	if err := printList(program, outputTable, alertNoun(), l, time.Now()); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(program, "end")
	lines := bufio.NewScanner(person)
	for want := range strings.Lines("SEVERITY\nwarning\nwarning\nend\n") {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), strings.TrimSpace(want)) {
			t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
		if n := utf8.RuneCountInString(lines.Text()); n > 110 {
			t.Errorf("%d columns: %q", n, lines.Text())
		}
		if strings.Contains(lines.Text(), "kube-unreachable") && !strings.Contains(lines.Text(), "the cluster does not ans") {
			t.Errorf("too little is left: %q", lines.Text())
		}
	}
}
