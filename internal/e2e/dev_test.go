package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

// nothingOf checks that a dev mesh left neither folder nor process.
func nothingOf(t *testing.T, dir string) {
	t.Helper()
	if left := running(dir); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// The server that leads is killed while clients are at work, and none of them
// notices; it comes back and catches up.
func TestDemo(t *testing.T) {
	dir := filepath.Join(shortDir(t), "d")
	begin := time.Now()
	o := command{args: []string{"dev", "up", "--demo", "--dir", dir}}.runWithin(t, 5*patience).want(t, exitOK,
		"✓ third server let in", "✓ all agree", "✓ device subscribed through an entry", "✓ page fetched through entry and core",
		"✓ page fetched with what the subscription says", ", which leads etcd, killed (SIGKILL)", "✓ changes work again",
		" caught up, any one may fail again", " new connections made, 0 failed; download not cut", "longest stall",
		"✓ page fetched through the other core", "✓ device refused", "nothing left")
	t.Logf("the demo took %v:\n%s", time.Since(begin), o.stdout)
	if o.stderr != "" {
		t.Errorf("it said on standard error: %s", o.stderr)
	}
	nothingOf(t, dir)
}

func TestDevUpStoppedAtAnyMomentLeavesNothing(t *testing.T) {
	for _, x := range []struct{ servers, moment string }{
		{"1", "a mesh on loopback"}, {"1", "founded"}, {"1", "core-a joined"}, {"1", "entry-a enrolled"}, {"1", "Ctrl-C here"},
		{"3", "a mesh on loopback"}, {"3", "founded"},
	} {
		t.Run("of "+x.servers+" servers, after "+x.moment, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(shortDir(t), "d")
			b := command{args: []string{"dev", "up", "--servers", x.servers, "--dir", dir}}.start(t)
			says(t, b, x.moment)
			b.signal(t, syscall.SIGINT)
			if code := b.ended(t); code != exitOK {
				t.Errorf("exit code %d:\n%s", code, b.out)
			}
			nothingOf(t, dir)
		})
	}
}

// says waits for text in the output.
func says(t *testing.T, b *background, text string) {
	t.Helper()
	eventually(t, patience, "output "+text, func() error {
		if strings.Contains(b.out.String(), text) {
			return nil
		}
		if b.over() {
			t.Fatalf("%v has ended:\n%s", b.Args, b.out)
		}
		return fmt.Errorf("it says:\n%s", b.out)
	})
}

func TestDevUpKilledTakesItsChildrenWithItAndDownCleans(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "d")
	up := command{args: []string{"dev", "up", "--dir", dir}}
	b := up.start(t)
	says(t, b, "Ctrl-C here")

	meshctl(t, "dev", "status", "--dir", dir).want(t, exitOK, "mgmt-a", "mgmt-c", "core-b", "entry-b", "ready")
	meshctl(t, "dev", "logs", "--dir", dir, "core-a").want(t, exitOK, "core-a   time=")
	meshctl(t, "dev", "logs", "--dir", dir, "mgmt-b").want(t, exitOK, "mgmt-b   time=")
	meshctl(t, "dev", "logs", "--dir", dir, "core-z").refused(t, exitFailure, "core-z").hinted(t, "dev status")
	meshctl(t, "dev", "up", "--dir", dir).refused(t, exitFailure, dir, "in use").hinted(t, "dev down")

	b.signal(t, syscall.SIGKILL)
	b.ended(t)
	eventually(t, patience, "the end of all children", func() error {
		if left := running(dir); len(left) > 0 {
			return fmt.Errorf("still there:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
	var st dev.State
	meshctl(t, "dev", "status", "--dir", dir, "-o", "json").decode(t, &st)
	for _, p := range st.Parts {
		if p.State != "ended" {
			t.Errorf("%s is called %s", p.Name, p.State)
		}
	}
	up.args = append(up.args, "--servers", "1")
	again := up.start(t) // over the remains
	says(t, again, "Ctrl-C here")
	meshctl(t, "dev", "down", "--dir", dir).want(t, exitOK, "nothing left")
	if code := again.ended(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, again.out)
	}
	nothingOf(t, dir)
	meshctl(t, "dev", "down", "--dir", dir).refused(t, exitFailure, "no dev mesh").hinted(t, "dev up")
}

func TestDevUpFoundsOnOneServerOrThree(t *testing.T) {
	t.Parallel()
	meshctl(t, "dev", "up", "--servers", "2", "--dir", filepath.Join(t.TempDir(), "d")).refused(t, exitUsage, "--servers 2")
}

func TestDevUpTouchesNoForeignFolder(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	file := filepath.Join(dir, "letters")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	meshctl(t, "dev", "up", "--dir", dir).refused(t, exitFailure, dir, "not empty").hinted(t, "--dir")
	meshctl(t, "dev", "down", "--dir", dir).refused(t, exitFailure, "no dev mesh")
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the file has become %q, %v", b, err)
	}
}

// A dev mesh ends with its terminal, and goes on when nobody reads what it says.
func TestDevUpEndsWithItsTerminalAndNotWithItsReader(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "d")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A child inherits that a signal is ignored, as below nohup, but not a handler.
	hangups := make(chan os.Signal, 1)
	ossignal.Notify(hangups, syscall.SIGHUP)
	defer ossignal.Stop(hangups)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := command{args: []string{"dev", "up", "--servers", "1", "--dir", dir}}.prepare(ctx, t.TempDir())
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Close()
	eventually(t, patience, "every part ready without a reader", func() error {
		var st dev.State
		o := meshctl(t, "dev", "status", "--dir", dir, "-o", "json")
		if o.code != exitOK {
			return errors.New(o.stderr)
		}
		o.decode(t, &st)
		if len(st.Parts) < 5 || slices.ContainsFunc(st.Parts, func(p dev.Part) bool { return p.State != "ready" }) {
			return fmt.Errorf("%v", st.Parts)
		}
		return nil
	})
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	nothingOf(t, dir)
}
