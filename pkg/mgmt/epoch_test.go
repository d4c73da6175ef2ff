package mgmt

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A server whose state is of an earlier epoch than its folder knows of does not
// serve, and one that hears of a later epoch stops.
func TestAServerOfAnEarlierEpochDoesNotServe(t *testing.T) {
	t.Parallel()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	again := func() (*running, error) { return start(conf, new(logBuffer), givePassphrase) }
	r, err := again()
	if err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, conf)
	first := call(t, admin.ConfigGet, r.local(t), admin.None{})
	if e, err := identity.EpochOf(r.keys.roots(), root.mesh, first); err != nil || e != 1 || first.EpochProof.IsZero() {
		t.Errorf("founded in epoch %d, %v, with a proof: %v", e, err, !first.EpochProof.IsZero())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(conf.Dir, fileEpoch)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(root.sign(t, 2))
	if r, err = again(); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "restored from a backup as epoch 2") || !strings.Contains(mesh.Hint(err), "mgmt add") {
		t.Errorf("with a later epoch in the folder: %v", err)
		if err == nil {
			r.stop()
		}
	}
	put(whole[:len(whole)/2])
	if r, err = again(); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), path) {
		t.Errorf("with a damaged file: %v", err)
		if err == nil {
			r.stop()
		}
	}
	if err := os.Remove(path); err != nil { // as of the versions before
		t.Fatal(err)
	}
	if r, err = again(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) == 0 {
		t.Errorf("the epoch of the state was not kept: %v", err)
	}
	later, err := root.SignEpoch(2, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.hearEpoch(later)
	select {
	case err = <-r.done:
		r.end()
	case <-time.After(time.Minute):
		t.Fatal("it goes on serving")
	}
	if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "as epoch 2") {
		t.Errorf("it stopped with %v", err)
	}
	if r, err = again(); !errors.Is(err, ErrSetup) {
		t.Errorf("started again: %v", err)
		if err == nil {
			r.stop()
		}
	}
}

type openedRoot struct {
	*ca.Root
	mesh mesh.ID
}

func openRoot(t *testing.T, conf Config) openedRoot {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(conf.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cert, err := ca.ParseCert(read(fileRootCert))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := givePassphrase(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	root, err := ca.OpenRoot(read(fileRootSealed), cert, []byte(secret.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	var s serverFile
	if err := s.parse(read(fileServer)); err != nil {
		t.Fatal(err)
	}
	return openedRoot{root, s.Mesh}
}

func (r openedRoot) sign(t *testing.T, epoch int64) []byte {
	t.Helper()
	signed, err := r.SignEpoch(epoch, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(epochFile{signed})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
