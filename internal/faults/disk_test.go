//go:build faults

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshctl/meshctl/pkg/admin"
)

// The disk of a server that leads fills up; then the others go on.
func TestDiskFull(t *testing.T) {
	l := theLab(t)
	h := l.Mgmt[2] // the one on a small disk
	if l.Leader(t) != h {
		must(t, l, admin.MgmtMoveLeader, admin.Ref{Ref: h.Name})
		l.WaitFor(t, patience, h.Name+" leads", func() error {
			if l.Leader(t) != h {
				return errors.New("another leads")
			}
			return nil
		})
	}
	from := h.logged(t)
	tr := l.Start(t, Traffic{})
	writes := l.write(t, l.Mgmt...)
	tr.Go(time.Second)
	tr.Fault()
	filler := fill(t, h.Data())
	begin := time.Now()
	l.WaitFor(t, patience, "a change needs space and does not get it", func() error {
		if h.Running() && h.Ready(t.Context()) == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	t.Logf("%s: not ready %v after its disk was full; running: %v", h.Name, time.Since(begin).Round(time.Millisecond), h.Running())
	changes := l.changesWork(t)
	tr.Go(5 * time.Second)
	acknowledged := writes.stop()
	l.saysWhy(t, h, from)
	if !h.Running() {
		l.refusesToStart(t, h)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if !h.Running() { // as a service manager does until it stays
		h.Start(t)
	}
	back := l.WaitFor(t, patience, "it is well again", func() error { return l.serversWell(t.Context()) })
	t.Logf("well %v after there was space again", back)
	m := tr.Stop(t)
	nothingNoticed(t, m)
	l.stillThere(t, acknowledged)
	l.Record(t, "disk of the mgmt leader full", m, changes, "until a change was made elsewhere")
}

// saysWhy wants the log since then to name what is wrong.
func (l *Lab) saysWhy(t *testing.T, h *Host, from int) {
	t.Helper()
	said := false
	for line := range strings.Lines(string(h.logSince(t, from))) {
		if strings.Contains(line, unix.ENOSPC.Error()) {
			t.Logf("%s says: %s", h.Name, strings.TrimSpace(line))
			said = true
		}
	}
	if !said {
		t.Errorf("%s does not say that its disk is full", h.Name)
	}
}

// refusesToStart starts a server whose disk is still full: it ends, says why, and
// is to be tried again.
func (l *Lab) refusesToStart(t *testing.T, h *Host) {
	t.Helper()
	from := h.logged(t)
	h.Start(t)
	select {
	case <-h.role.Done:
	case <-time.After(patience):
		t.Fatalf("%s runs on a full disk\n%s", h.Name, h.role.Tail(15))
	}
	l.saysWhy(t, h, from)
	if code := h.role.ProcessState.ExitCode(); code == 0 || code == exitConfig {
		t.Errorf("%s ended with %d, after which nobody starts it again", h.Name, code)
	}
}

// exitConfig is the one code after which service managers do not try again.
const exitConfig = 78

// fill leaves no byte free on the disk of dir and returns the file that takes it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "filler")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	defer f.Close()
	block := make([]byte, 1<<16)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return file
}
