//go:build kube

package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// dirs is how the folders of runs are called.
const dirs = "meshctl-kube-"

func TestMain(m *testing.M) {
	if file := os.Getenv(machineVariable); file != "" {
		fmt.Fprintln(os.Stderr, "machine:", boot(file))
		os.Exit(1)
	}
	os.Exit(mainCode(m))
}

func mainCode(m *testing.M) int {
	program, lock, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		return 1
	}
	defer lock.Close()
	shared.program = program
	code := m.Run()
	if err := shared.end(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		return 1
	}
	return code
}

// prepare makes this run the only one on the machine, removes what killed runs
// have left, and finds the programs.
func prepare() (program string, lock *os.File, err error) {
	ctx := context.Background()
	if err := requirements(ctx); err != nil {
		return "", nil, err
	}
	if program, err = kubeBinary(ctx); err != nil {
		return "", nil, err
	}
	lock, left, err := lab.Only(dirs)
	if err != nil {
		return "", nil, err
	}
	err = sweep(prefix)
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return program, lock, err
}

// shared is what all tests of a run have in common.
var shared sharedParts

type sharedParts struct {
	program string // kube
	once    sync.Once
	kube    *Kube
	well    bool
	rows    []row

	onceMesh sync.Once
	mesh     *Mesh
	meshWell bool

	onceEntries sync.Once
	entries     *Entries
	entriesWell bool
}

// theKube returns the cluster, with two workers at least. The first test makes it.
func theKube(t *testing.T) *Kube {
	t.Helper()
	shared.once.Do(func() { shared.make(t) })
	if !shared.well {
		t.Fatal("the cluster was not made")
	}
	return shared.kube
}

func (s *sharedParts) make(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", dirs)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	network := fabric{strings.ToLower(rand.Text()[:4])}
	if err := network.create(); err != nil {
		t.Fatal(err)
	}
	if s.kube, err = newKube(context.Background(), dir, network, s.program, north); err != nil {
		t.Fatal(err)
	}
	if err := s.kube.makeImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%5.1f s  control plane", time.Since(begin).Seconds())
	for n := range 2 {
		s.kube.AddNode(t, n+1)
		t.Logf("%5.1f s  worker %d is Ready", time.Since(begin).Seconds(), n+1)
	}
	s.well = true
}

// end shows what was measured and removes everything. After a failure the logs
// are left.
func (s *sharedParts) end(succeeded bool) error {
	if s.kube == nil {
		return nil
	}
	var err error
	if s.mesh != nil {
		err = s.mesh.close()
	}
	err = errors.Join(err, s.kube.close(), report(s.rows, succeeded))
	if succeeded {
		err = errors.Join(err, os.RemoveAll(s.kube.Dir))
	}
	return err
}
