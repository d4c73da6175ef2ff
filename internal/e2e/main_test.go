package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// meshctlBinary is the program under test; nothing changes it once tests run.
var meshctlBinary string

func TestMain(m *testing.M) { os.Exit(mainCode(m)) }

func mainCode(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "e2e-")
	if err == nil {
		meshctlBinary = filepath.Join(dir, "meshctl")
		err = build(meshctlBinary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, os.RemoveAll(dir)))
		return 1
	}
	code = m.Run()
	if err := errors.Join(closeShared(), nothingRuns(), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// build makes the binary as the Makefile does, whatever this test itself was
// built with.
func build(out string) error {
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "github.com/meshctl/meshctl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false -tags=nobadger,nobbolt,nomysql,nopgx")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// nothingRuns is an error when a process of the binary outlives the tests.
func nothingRuns() error {
	var left []string
	for range 100 {
		if left = running(""); len(left) == 0 {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return fmt.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
}

// running lists the command lines of the binary's processes that mention text.
func running(text string) []string {
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		panic(err) // the pattern is constant
	}
	var out []string
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err != nil || target != meshctlBinary {
			continue // gone, or another's
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
		if err != nil || len(line) == 0 {
			continue // gone meanwhile, or waited for by nobody yet
		}
		if s := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(s, text) {
			out = append(out, s)
		}
	}
	return out
}
