package cmd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// TestAdminScripts runs the scripts of the admin commands, each with a folder
// of its own, against one real management server in this process. UPDATE=1
// rewrites what they expect.
func TestAdminScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/admin*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	server := startMgmt(t)
	t.Run("a certificate is renewed in passing", func(t *testing.T) { renewsInPassing(t, server) })
	t.Run("a webhook hears of an alert", func(t *testing.T) { hearsOfAlert(t, server) })
	t.Run("entries are deployed into a cluster", func(t *testing.T) { deploysEntries(t, server) })
	t.Run("a cluster that is another one", func(t *testing.T) { movesACluster(t, server) })
	t.Run("what holds a release back is said", func(t *testing.T) { saysWhatHolds(t, server) })
	testscript.Run(t, testscript.Params{
		Files:         scripts,
		UpdateScripts: updateScripts(),
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "keep": keep, "until": until, "completes": completes, "backup": writeBackup},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("SOCKET", server.Socket)
			env.Setenv("SERVER", server.Mesh)
			env.Values["scribe"] = &scribe{}
			return nil
		},
	})
}

// startMgmt founds a mesh and serves it until the test ends.
func startMgmt(t *testing.T) mgmt.Addresses {
	t.Helper()
	c := mgmt.DefaultConfig()
	c.Dir, c.Name = filepath.Join(t.TempDir(), "mgmt"), "alpha"
	c.MeshListen, c.MetricsListen = "127.0.0.1:0", ""
	c.Etcd.ClientListen, c.Etcd.PeerListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Founding.AllowedAddresses = []string{"127.0.0.0/8"}
	c.Founding.EntryAddresses = []string{"127.0.0.1:443"}
	c.Aux.Memory = childMemory
	up, done := make(chan mgmt.Addresses, 1), make(chan error, 1)
	s := &mgmt.Server{
		Config: c, Version: "test", Log: slog.New(slog.DiscardHandler), Up: func(a mgmt.Addresses) { up <- a },
		Passphrase: func(context.Context) (mesh.Secret, error) { return "correct horse battery staple", nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	select {
	case <-ready:
		return <-up
	case err := <-done:
		done <- nil
		t.Fatalf("the server did not start: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the server does not serve within a minute")
	}
	return mgmt.Addresses{}
}

// exits CODE PROGRAM ARGS… runs a program that must end with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
	}
	if want, err := strconv.Atoi(args[0]); err != nil || code != want {
		ts.Fatalf("%s: exit %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// keep VAR [REGEXP] keeps the first line of the last output, or the first match
// in it, in a variable.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: keep VAR [REGEXP]")
	}
	text, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	if len(args) == 2 {
		text = regexp.MustCompile(args[1]).FindString(ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], text)
}

// completes ARGS… says what the last of the arguments may be, as a shell asks. It
// asks again when the server took longer than a completion waits for it.
func completes(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: completes ARGS...")
	}
	for end := time.Now().Add(time.Minute); ; {
		ts.Check(ts.Exec("meshctl", append([]string{"__complete"}, args...)...))
		if !strings.HasSuffix(ts.ReadFile("stdout"), ":1\n") || time.Now().After(end) { // an error
			return
		}
	}
}

// until PATTERN PROGRAM ARGS… runs a program until a line of its output matches,
// interrupts it, and wants it to end well.
func until(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARGS...")
	}
	pattern := regexp.MustCompile(args[0])
	bin, _, _ := strings.Cut(ts.Getenv("PATH"), string(filepath.ListSeparator))
	c := exec.Command(filepath.Join(bin, args[1]), args[2:]...)
	c.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"))
	c.Stderr = ts.Stderr()
	out, err := c.StdoutPipe()
	ts.Check(err)
	ts.Check(c.Start())
	late := time.AfterFunc(time.Minute, func() { c.Process.Kill() }) // ends the scan below
	defer late.Stop()
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = pattern.MatchString(lines.Text())
	}
	ts.Check(c.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, out)
	ts.Check(errors.Join(err, c.Wait()))
	if !found {
		ts.Fatalf("no line of the output matches %q", args[0])
	}
}
