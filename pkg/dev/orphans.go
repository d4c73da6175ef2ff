package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// endOrphans waits for the children of a `dev up` that was killed. They were
// told to stop when it died; what does not is killed, or it would write into
// the folder while that is cleared.
func endOrphans(dir string) {
	kill := time.After(stopPatience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := orphans(dir)
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-kill:
			for _, pid := range left {
				syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
			}
		}
	}
}

// orphans are the processes that run from a configuration below dir.
func orphans(dir string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil // the pattern is right
	}
	config := []byte("\x00--config\x00" + dir + "/")
	var out []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, config) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
