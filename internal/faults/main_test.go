//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/internal/lab"
)

// dirs is how the folders of runs are called.
const dirs = "meshctl-faults-"

func TestMain(m *testing.M) { os.Exit(mainCode(m)) }

func mainCode(m *testing.M) int {
	if err := requirements(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	lock, err := clear()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	defer lock.Close()
	code := m.Run()
	if shared.lab == nil {
		return code
	}
	if err := errors.Join(shared.lab.close(), shared.lab.report(code == 0)); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	if code == 0 { // otherwise the logs are of use
		err = os.RemoveAll(shared.lab.Dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	return code
}

// requirements says exactly what is missing on this machine.
func requirements() error {
	var errs []error
	if os.Getuid() != 0 {
		errs = append(errs, errors.New("root is needed, for network namespaces"))
	}
	for program, pkg := range map[string]string{"ip": "iproute2", "nft": "nftables"} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing; install the Debian package %s", program, pkg))
		}
	}
	return errors.Join(errs...)
}

// clear makes this run the only one on the machine and removes what killed runs
// have left.
func clear() (*os.File, error) {
	lock, left, err := lab.Only(dirs)
	if err != nil {
		return nil, err
	}
	err = errors.Join(lab.Sweep(prefix), unmountLeftovers())
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return lock, err
}

// shared is the one mesh of a run.
var shared struct {
	once sync.Once
	lab  *Lab
	well bool
}

// theLab returns the mesh, which is well, and mends it when the test ends. The
// first test forms it.
func theLab(t *testing.T) *Lab {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", dirs)
		if err != nil {
			t.Fatal(err)
		}
		shared.lab = &Lab{Dir: dir, binary: filepath.Join(dir, "meshctl")}
		if err := build(shared.lab.binary); err != nil {
			t.Fatal(err)
		}
		form(t, shared.lab)
		shared.well = true
	})
	if !shared.well {
		t.Fatal("the mesh was not formed, or not mended")
	}
	t.Cleanup(func() {
		shared.well = false
		shared.lab.restore(t)
		shared.well = true
	})
	return shared.lab
}

// binaryVariable names a binary to break in place of one that is built here.
const binaryVariable = "MESHCTL_FAULTS_BINARY"

func build(out string) error {
	if given := os.Getenv(binaryVariable); given != "" {
		return os.Symlink(given, out)
	}
	return lab.Build(context.Background(), out, "github.com/meshctl/meshctl")
}
