package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// offline is a store without an etcd: sealing needs none.
func offline(t *testing.T, key [32]byte) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{"http://127.0.0.1:1"}, DataKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestASealedValueOpensWithItsKeyInItsPlaceOnly(t *testing.T) {
	s := offline(t, store.NewDataKey())
	here := store.DeviceSecretPlace("device-a")
	sealed, err := s.Seal(here, "secret text")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Unseal(here, sealed); err != nil || got.Reveal() != "secret text" {
		t.Fatalf("got %v, %v", got, err)
	}
	if again, err := s.Seal(here, "secret text"); err != nil || again == sealed {
		t.Errorf("twice the same: %v", err)
	}
	flipped := []byte(sealed)
	flipped[len(flipped)-5] ^= 1
	for name, open := range map[string]func() (mesh.Secret, error){
		"another place": func() (mesh.Secret, error) { return s.Unseal(store.DeviceSecretPlace("device-b"), sealed) },
		"another field": func() (mesh.Secret, error) { return s.Unseal(store.CellKeyPlace("device-a"), sealed) },
		"another key":   func() (mesh.Secret, error) { return offline(t, store.NewDataKey()).Unseal(here, sealed) },
		"damaged":       func() (mesh.Secret, error) { return s.Unseal(here, mesh.Sealed(flipped)) },
		"cut short":     func() (mesh.Secret, error) { return s.Unseal(here, sealed[:20]) },
		"empty":         func() (mesh.Secret, error) { return s.Unseal(here, "") },
		"no prefix":     func() (mesh.Secret, error) { return s.Unseal(here, sealed[len(mesh.SealedPrefix):]) },
	} {
		if got, err := open(); !errors.Is(err, mesh.ErrInvalid) || got != "" || strings.Contains(err.Error(), string(sealed)) {
			t.Errorf("%s: got %q, %v; want invalid", name, got.Reveal(), err)
		}
	}
	none := offline(t, [32]byte{})
	if _, err := none.Seal(here, "x"); err == nil {
		t.Error("sealed without a key")
	}
	if _, err := none.Unseal(here, sealed); err == nil {
		t.Error("opened without a key")
	}
}

func TestTheDataKeyIsKeptInAFileOfItsOwn(t *testing.T) { // F-06
	path := filepath.Join(t.TempDir(), "data.key")
	if _, err := store.ReadDataKeys(path); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	key := store.NewDataKey()
	if err := store.WriteDataKey(path, key); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	if got, err := store.ReadDataKeys(path); err != nil || len(got) != 1 || got[0] != key {
		t.Errorf("got another key, %v", err)
	}
	if err := store.WriteDataKey(path, store.NewDataKey()); !errors.Is(err, mesh.ErrExists) {
		t.Errorf("got %v, want exists", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadDataKeys(path); !errors.Is(err, mesh.ErrInvalid) || mesh.Hint(err) == "" {
		t.Errorf("got %v of a file others may read", err)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 42), strings.Repeat("A", 44)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ReadDataKeys(path); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%q: got %v, want invalid", text, err)
		}
	}
}

func TestDerivedKeysAreOfTheDataKeyAndThePurpose(t *testing.T) {
	key := store.NewDataKey()
	seen := map[string]bool{}
	for _, s := range []*store.Store{offline(t, key), offline(t, store.NewDataKey())} {
		for _, purpose := range []string{"a", "b"} {
			got, err := s.Derive(purpose)
			if err != nil || len(got.Reveal()) < 40 {
				t.Fatalf("%d characters, %v", len(got.Reveal()), err)
			}
			seen[got.Reveal()] = true
		}
	}
	if again, err := offline(t, key).Derive("a"); err != nil || len(seen) != 4 || !seen[again.Reveal()] {
		t.Errorf("%d keys, %v", len(seen), err)
	}
}
