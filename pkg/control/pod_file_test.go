package control

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Management that has moved while a pod was cut off is found by the file; what a
// server says counts until the file changes.
func TestAddressesComeFromTheFileAsItChanges(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	st, err := OpenState(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pod{MgmtFile: filepath.Join(t.TempDir(), "mgmt")}
	file := func(text string) {
		t.Helper()
		if err := os.WriteFile(p.MgmtFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set := func(addrs ...string) {
		t.Helper()
		if err := st.SetAddresses(addrs); err != nil {
			t.Fatal(err)
		}
	}
	become := func(want ...string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !slices.Equal(st.Addresses(), want); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("addresses %q, want %q", st.Addresses(), want)
			}
		}
	}
	set("told:1", "both:1")
	file("both:1\nfile:1\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.followAddresses(ctx, st, log, time.Millisecond) }()
	become("both:1", "file:1", "told:1") // which is newer is not known at the start
	set("told:2")
	file("both:1\nfile:1\n") // the same
	become("told:2")
	file("bad")
	file("moved:1 moved:2")
	become("moved:1", "moved:2")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
