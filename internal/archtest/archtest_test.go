// Package archtest holds the import rules of the project as a test.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/meshctl/meshctl"

type goPackage struct {
	ImportPath   string
	Dir          string
	Doc          string
	GoFiles      []string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list: decode: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A door is the only package that may import a library.
var doors = []struct {
	library string
	open    []string // packages of ours, relative; tests are free
	why     string
}{
	{"github.com/smallstep/", []string{"pkg/ca"}, "issuing certificates has one place"},
	{"go.step.sm/", []string{"pkg/ca"}, "issuing certificates has one place"},
	{"go.etcd.io/etcd/server/", []string{"pkg/store/embedded", "pkg/store/storetest"}, "a node must never link raft"},
	{"go.etcd.io/etcd/client/", []string{"pkg/store", "pkg/store/embedded", "pkg/store/gateway", "pkg/store/storetest"}, "keys and revisions stay in one place"},
	{"github.com/spf13/", []string{"cmd"}, "flags and files become plain structs at the door"},
	{"github.com/hashicorp/memberlist", []string{"pkg/gossip"}, "who is alive nearby is a hint, and comes from one place"},
	{"github.com/go-git/", []string{"pkg/backup/repo"}, "what a stranger's repository holds is read in one place"},
	{"filippo.io/age", []string{"pkg/backup"}, "who can read a backup is decided in one place"},
	{"gopkg.in/telebot.v3", []string{"pkg/bot", "pkg/bot/telegram"}, "what strangers write to the bot is read in one place"},
	{"github.com/coder/websocket", []string{"pkg/core"}, "WebSockets are one of the ways into a core, and nothing else"},
	{"golang.org/x/crypto/acme", []string{"pkg/acme"}, "certificates are ordered from strangers in one place"},
	{"github.com/miekg/dns", []string{"pkg/acme", "pkg/acme/acmetest"}, "what a stranger's name server says is read in one place"},
	{"github.com/letsencrypt/", []string{"pkg/acme/acmetest"}, "an authority for tests is in no binary"},
	{"github.com/skip2/go-qrcode", []string{"pkg/qr"}, "a code is drawn in one place, however it is looked at"},
	{"k8s.io/", []string{"pkg/kube/client", "pkg/kube/kubetest"}, "what a cluster says is read, and written, in one place"},
	{"github.com/google/go-containerregistry", []string{"internal/image"}, "images are built, and never fetched"},
	{"github.com/pires/go-proxyproto", []string{"pkg/relay", "pkg/entry"}, "only these speak the PROXY protocol"},
}

// forbidden says what a package must not depend on, even indirectly.
var forbidden = []struct {
	from []string
	to   []string
	why  string
}{
	{[]string{"pkg/entry", "pkg/core"}, []string{module + "/pkg/store$", module + "/pkg/ca", module + "/pkg/mgmt", module + "/pkg/bot", module + "/pkg/kube", module + "/pkg/backup", "github.com/smallstep", "go.etcd.io/etcd/server"}, "a stolen edge node carries no code that can issue or write"},
	{[]string{"pkg/entry"}, []string{module + "/pkg/core"}, "roles never import each other"},
	{[]string{"pkg/core"}, []string{module + "/pkg/entry"}, "roles never import each other"},
	{[]string{"pkg/mgmt", "pkg/mgmt/nodes", "pkg/mgmt/adminsvc"}, []string{module + "/pkg/entry", module + "/pkg/core$"}, "roles never import each other"},
	{[]string{"pkg/identity", "pkg/relay", "pkg/control", "pkg/clienthello", "pkg/clientproto", "pkg/clientproto/muxcool", "pkg/admin", "pkg/gossip", "pkg/subscription"}, []string{module + "/pkg/store", module + "/pkg/ca", module + "/pkg/mgmt", "go.etcd.io/etcd"}, "services below the roles know no state"},
	{[]string{"pkg/chores", "internal/child", "pkg/acme", "pkg/bot", "pkg/bot/telegram", "pkg/bot/texts"}, []string{module + "/pkg/store", module + "/pkg/ca", module + "/pkg/mgmt", "go.etcd.io/etcd"}, "what runs in a child has no keys and no state"},
	{[]string{"pkg/backup", "pkg/backup/repo", "pkg/audit"}, []string{module + "/pkg/store", module + "/pkg/ca", module + "/pkg/mgmt", "go.etcd.io/etcd"}, "a backup is read and written where there are no keys and no state"},
	{[]string{"pkg/alert"}, []string{module + "/pkg/store", module + "/pkg/control", module + "/pkg/mgmt", "go.etcd.io/etcd", "google.golang.org/grpc"}, "what people are told is decided without state and without a network"},
	{[]string{"pkg/store"}, []string{module + "/pkg/ca", module + "/pkg/mgmt", module + "/pkg/control", "go.etcd.io/etcd/server"}, "state knows nobody above it"},
	{[]string{"pkg/ca"}, []string{module + "/pkg/store", "go.etcd.io/etcd"}, "the CA states the interface it needs"},
}

func TestImportRules(t *testing.T) {
	pkgs := list(t, "./...")
	for _, p := range pkgs {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			for _, d := range doors {
				if strings.HasPrefix(imp, d.library) && !slices.Contains(d.open, rel) {
					t.Errorf("%s imports %s; only %v may, because %s", rel, imp, d.open, d.why)
				}
			}
			if strings.HasPrefix(imp, module+"/cmd") && rel != "" {
				t.Errorf("%s imports cmd; nothing may", rel)
			}
			if isTestPackage(imp) && !isTestPackage(p.ImportPath) {
				t.Errorf("%s imports the test package %s", rel, imp)
			}
			if rel == "pkg/mesh" && strings.Contains(imp, ".") {
				t.Errorf("pkg/mesh imports %s; it is the bottom and has the standard library only", imp)
			}
		}
		for _, f := range forbidden {
			if slices.Contains(f.from, rel) {
				for _, dep := range p.Deps {
					if slices.ContainsFunc(f.to, func(x string) bool { return matches(dep, x) }) {
						t.Errorf("%s depends on %s, but %s", rel, dep, f.why)
					}
				}
			}
		}
	}
}

// matches says whether dep is at or below pattern; a trailing $ means exactly it.
func matches(dep, pattern string) bool {
	if exact, ok := strings.CutSuffix(pattern, "$"); ok {
		return dep == exact
	}
	return dep == pattern || strings.HasPrefix(dep, pattern+"/")
}

func isTestPackage(path string) bool {
	return strings.HasPrefix(path, module) && strings.HasSuffix(path, "test")
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.Doc == "" && len(p.GoFiles) > 0 && !strings.HasSuffix(p.ImportPath, "controlpb") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestViperLivesInOneFile(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), "cmd", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("glob: %v, %d files", err, len(files))
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), `"github.com/spf13/viper"`) && filepath.Base(f) != "config.go" {
			t.Errorf("%s imports viper; only config.go may", filepath.Base(f))
		}
	}
}

// TestEdgeDependencies keeps the list of everything an entry or a core links in
// review: it is their attack surface. UPDATE=1 rewrites it.
func TestEdgeDependencies(t *testing.T) {
	var deps []string
	for _, p := range list(t, "./pkg/entry", "./pkg/core") {
		for _, d := range p.Deps {
			if strings.Contains(strings.SplitN(d, "/", 2)[0], ".") {
				deps = append(deps, d)
			}
		}
	}
	slices.Sort(deps)
	got := strings.Join(slices.Compact(deps), "\n") + "\n"
	golden := filepath.Join("testdata", "edge-dependencies.txt")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the edge's dependencies changed; look at the difference, then UPDATE=1 go test ./internal/archtest\ngot:\n%s", got)
	}
}
