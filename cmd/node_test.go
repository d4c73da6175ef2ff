package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An entry takes its token from standard input as a core does.
func TestEntryReadsItsTokenFromStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("no token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	was := os.Stdin
	defer func() { os.Stdin = was }()
	os.Stdin = in
	var out, errs strings.Builder
	code := Main([]string{"entry", "run", "--dir", filepath.Join(t.TempDir(), "entry"), "--limits-connections", "10", "--token-file", "-"}, in, &out, &errs)
	if code != exitConfig || !strings.Contains(errs.String(), "parse join token") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}
