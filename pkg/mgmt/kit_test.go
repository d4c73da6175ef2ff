package mgmt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheRecoveryKitHasWhatARestoreNeedsAndNoSecret(t *testing.T) {
	w := getWorld(t)
	kit, err := ReadKit(w.conf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	root := sha256.Sum256(w.keys.root.Raw)
	if kit.Mesh != w.keys.Mesh || kit.Root != hex.EncodeToString(root[:]) || kit.RootEnds.IsZero() {
		t.Errorf("the kit is %+v", kit)
	}
	kit.Addresses, kit.Remotes, kit.Openers = []string{"a.example.net:8443", "b.example.net:8443"}, []string{"home git@git.example.net:mesh.git"}, []string{"ops age1x"}
	var page strings.Builder
	if err := kit.Print(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{string(kit.Mesh), kit.Root, "a.example.net:8443", "--from git@git.example.net:mesh.git", "ops age1x", "passphrase"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not on the page:\n%s", want, &page)
		}
	}
	for _, name := range []string{fileDataKey, fileEtcdCA, fileIntermediateKey, fileRootSealed} {
		secret, err := os.ReadFile(filepath.Join(w.conf.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(secret)) {
			if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(page.String(), line) {
				t.Errorf("%s is on the page", name)
			}
		}
	}
	if _, err := ReadKit(t.TempDir()); !errors.Is(err, mesh.ErrNotFound) {
		t.Errorf("of an empty folder: %v", err)
	}
}
