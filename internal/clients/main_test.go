//go:build clients

package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
)

// run is what all tests share; each part is made by the first test that needs it.
var run struct {
	dir    string // removed at the end
	binary string // meshctl
	once   sync.Once
	mesh   *dev.Mesh
	origin *origin
	err    error
	table  table
}

func TestMain(m *testing.M) { os.Exit(mainCode(m)) }

func mainCode(m *testing.M) int {
	code, err := prepare(m)
	if run.mesh != nil {
		err = errors.Join(err, run.mesh.Close(), run.origin.close())
	}
	if err = errors.Join(err, run.table.report(code == 0), os.RemoveAll(run.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		return 1
	}
	return code
}

func prepare(m *testing.M) (code int, err error) {
	// The paths of unix sockets below it have room for 107 bytes.
	if run.dir, err = os.MkdirTemp("/tmp", "mcc-"); err != nil {
		return 1, err
	}
	if err := findPrograms(context.Background()); err != nil {
		return 1, err
	}
	run.binary = filepath.Join(run.dir, "meshctl")
	if err := build(run.binary); err != nil {
		return 1, err
	}
	return m.Run(), nil
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
