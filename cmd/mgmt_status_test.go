package cmd

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// A server that takes connections and answers none is down, and what its folder
// holds is shown as for one that does not run.
func TestStatusOfAServerThatHangs(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "mgmt.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetOut(&out)
	cfg := newMgmtConfig()
	cfg.Dir = dir
	if err := runMgmtStatus(c, cfg, ""); err != exitError(exitUnavailable) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"Answers:  no\n", "problem: " + socket + " did not answer in time\n", "problem: no mesh has been founded in " + dir} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}
