package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Only makes this run the only one of its kind on the machine, until the file
// that it returns is closed, and names the folders that killed runs have left.
// The folders of runs are called dirs and a number.
func Only(dirs string) (lock *os.File, left []string, err error) {
	lock, err = os.OpenFile(filepath.Join(os.TempDir(), dirs+"lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("another run is under way: %w", err), lock.Close())
	}
	left, err = filepath.Glob(filepath.Join(os.TempDir(), dirs+"*[0-9]"))
	return lock, left, err
}

// BuildFlags are those of the Makefile, for the environment.
const BuildFlags = "GOFLAGS=-trimpath -buildvcs=false -tags=nobadger,nobbolt,nomysql,nopgx"

// Build makes a program of ours as the Makefile does, whatever the test itself
// was built with.
func Build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", BuildFlags)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

const marker = "<!-- measured: %s -->\n"

// Report prints a table, and writes it between the markers of a document after a
// whole run that succeeded: the document is that of an environment variable, if
// set.
func Report(table, variable string, succeeded bool) error {
	if _, err := fmt.Print(table); err != nil {
		return err
	}
	file := os.Getenv(variable)
	if file == "" || !succeeded || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf(marker, "begin"), fmt.Sprintf(marker, "end")
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the table", file)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+table+"\n"+end+after), 0o644)
}
