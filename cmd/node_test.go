package cmd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatCannotBeListenedOn(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for addr, want := range map[string]struct {
		code int
		text string
	}{
		busy.Addr().String(): {exitUnavailable, "error: listen " + busy.Addr().String() + ": the port is in use"},
		"192.0.2.1:0":        {exitConfig, "hint: set listen to an address of this machine"},
		"no-such.invalid:0":  {exitConfig, "hint: set listen to an address of this machine"},
	} {
		_, err := listen(t.Context(), "listen", addr)
		var out strings.Builder
		if code := report(&out, err); code != want.code || !strings.Contains(out.String(), want.text) {
			t.Errorf("%s: exit %d: %s", addr, code, out.String())
		}
	}
}

func TestATokenFileThatIsMissingIsAFaultOfConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"core", "join", "--dir", filepath.Join(t.TempDir(), "core"), "--token-file", file},
		{"entry", "run", "--dir", filepath.Join(t.TempDir(), "entry"), "--limits-connections", "10", "--token-file", file},
	} {
		var out strings.Builder
		if code := Main(args, strings.NewReader(""), &out, &out); code != exitConfig || !strings.Contains(out.String(), file) {
			t.Errorf("%v: exit %d: %s", args, code, out.String())
		}
	}
}

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
