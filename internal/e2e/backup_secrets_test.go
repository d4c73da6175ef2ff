package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are the secrets of a mesh with backups, and names that only recipients
// may read.
func (b *backedUp) planted(t *testing.T) planted {
	t.Helper()
	p := planted{}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	for _, s := range b.Servers {
		p.keys(t, dataDir(s))
	}
	p.text("passphrase", read(filepath.Join(b.Dir, "passphrase")))
	p["data key"] = []byte(read(filepath.Join(dataDir(b.Mgmt), "data.key")))
	p["sealed root"] = []byte(read(filepath.Join(dataDir(b.Mgmt), "root.sealed")))
	p.text("device secret", b.seen.link.Secret)
	for line := range strings.SplitSeq(read(b.identity), "\n") {
		if strings.HasPrefix(line, "AGE-SECRET-KEY-") {
			p.text("identity", line)
		}
	}
	for _, r := range b.remotes {
		for i, arg := range r.add {
			switch arg {
			case "--token-file":
				p.text("token of "+r.name, read(r.add[i+1]))
			case "--ssh-key":
				p["key of "+r.name] = []byte(strings.Split(read(r.add[i+1]), "\n")[2])
			}
		}
	}
	b.admin(t, "member", "add", canaryName)
	p.text("name", canaryName)
	return p
}

const canaryName = "Canary Petrova"

// hidden looks for them in every object that a repository has, of the whole
// history and of branches and tags.
func (p planted) hidden(t *testing.T, r gitRemote) {
	t.Helper()
	all, err := exec.Command(need(t, "git", "git"), "-C", r.dir, "cat-file", "--batch-all-objects", "--batch", "--unordered").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all, []byte("age-encryption.org/v1")) || !bytes.Contains(all, []byte("manifest.yaml")) {
		t.Errorf("%s: %d bytes that hold no backup", r.name, len(all))
	}
	p.absent(t, "the repository "+r.name, all)
}
