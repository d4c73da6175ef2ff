package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
)

// dataDir is a part's data folder.
func dataDir(p *dev.Process) string { return p.Config["dir"].(string) }

// newestIdentity is the content of the newest identity file of a node.
func newestIdentity(t *testing.T, p *dev.Process) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir(p), "identity", "identity-*.pem"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no identity of %s: %v", p.Name, err)
	}
	b, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	return b
}
