package control_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func keyOf(t *testing.T, chain [][]byte) string {
	t.Helper()
	c, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	return identity.KeyHash(c.PublicKey)
}

func open(t *testing.T, dir string) *control.State {
	t.Helper()
	s, err := control.OpenState(dir, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStateSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.SetAddresses([]string{"a:1", "b:2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetConfig(&controlpb.Config{Revision: 7, Suffixes: []string{"a.example.net"}}); err != nil {
		t.Fatal(err)
	}
	first, err := s.NextBoot()
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if r.Instance() != s.Instance() || len(r.Addresses()) != 2 || r.Config().GetRevision() != 7 {
		t.Errorf("after restart: %q %v %v", r.Instance(), r.Addresses(), r.Config())
	}
	if second, err := r.NextBoot(); err != nil || second <= first {
		t.Errorf("boot %d after %d, %v", second, first, err)
	}
	if _, err := r.NextBoot(); err != nil || s.Start() != first || r.Start() != first+1 {
		t.Errorf("starts %d and %d, %v; want those of their first streams, %d and the next", s.Start(), r.Start(), err, first)
	}
}

// H-07: every file is either old or new, and the node starts.
func TestStateSurvivesADamagedFile(t *testing.T) {
	for _, name := range []string{"node.json", "config.json"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			for i := range int64(2) {
				if err := errors.Join(s.SetAddresses([]string{"a:1"}), s.SetConfig(&controlpb.Config{Revision: 5 + i})); err != nil {
					t.Fatal(err)
				}
				if _, err := s.NextBoot(); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 100), 0o600); err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			if r.Instance() != s.Instance() || len(r.Addresses()) != 1 || r.Config().GetRevision() < 5 {
				t.Errorf("after damage: %q %v %v", r.Instance(), r.Addresses(), r.Config())
			}
		})
	}
}

func TestAStateThatIsLostIsNeverReplacedSilently(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(t, dir).NextBoot(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"node.json", "node.json.old"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte{0}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := control.OpenState(dir, logger(t))
	if err == nil || !strings.Contains(err.Error(), "node.json") || mesh.Hint(err) == "" {
		t.Errorf("got %v, hint %q", err, mesh.Hint(err))
	}
}

func TestAddressesAreBounded(t *testing.T) {
	s := state(t, "a:1")
	for name, list := range map[string][]string{
		"no port":  {"a"},
		"too many": make([]string, 17),
	} {
		if err := s.SetAddresses(list); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := s.SetAddresses(nil); err != nil || len(s.Addresses()) != 1 {
		t.Errorf("an empty list must change nothing: %v, %v", err, s.Addresses())
	}
}
