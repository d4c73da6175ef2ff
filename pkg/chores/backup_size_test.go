package chores

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAFirstCommitOfManyFiles stays within the memory that a child is given.
// MESHCTL_BACKUP_OBJECTS says how many objects, of two files each, it has.
func TestAFirstCommitOfManyFiles(t *testing.T) {
	t.Parallel()
	n := 1_500
	if text := os.Getenv("MESHCTL_BACKUP_OBJECTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	remote := bare(t)
	a := newArchive(t, w, BackupEpoch{1, 1}, t.TempDir(), remote)
	s := newBackups(t, a)
	w.change(n)
	begun := time.Now()
	s.done(t, a)
	first := time.Since(begun)
	w.change(1)
	begun = time.Now()
	s.done(t, a)
	second := time.Since(begun)
	p := s.prove(t, a)
	if p.err != nil || len(p.state.Objects) != n {
		t.Errorf("proof: %v", p.err)
	}
	if s.Status().Restarts != 0 {
		t.Errorf("%+v", s.Status())
	}
	files := strings.Count(git(t, remote, "ls-tree", "-r", "--name-only", "main"), "\n") + 1
	t.Logf("%d files: first commit and push %v, of one change %v; the child: %s", files, first, second, s.memory(t))
}

// memory is the most that the child took, resident and as the kernel counts it
// against the limit.
func (s *site) memory(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Status().PID))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmData") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
