package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
)

// damages are what a full disk and a crash make of a file.
var damages = map[string]func(content []byte) []byte{
	"cut to half":   func(b []byte) []byte { return b[:len(b)/2] },
	"empty":         func([]byte) []byte { return nil },
	"full of zeros": func(b []byte) []byte { return make([]byte, len(b)) },
}

// mended are the files whose damage is repaired by itself, with what the log
// has to say: they are made anew at each start, or management sends them again.
var mended = map[string]string{
	"root.sealed":  "root.sealed", // etcd has a copy
	"etcd-tls":     "",
	"config.json":  "config.json",
	"devices.json": "devices.json",
	"node.json":    "node.json", // its version before is beside it
	"cell.pem":     "cell",
}

func mendedBy(file string) (says string, ok bool) {
	for part, says := range mended {
		if strings.HasSuffix(file, "/"+part) || strings.Contains(file, "/"+part+"/") {
			return says, true
		}
	}
	return "", false
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1})
	was := call(t, m, admin.StatusGet, admin.None{}).Mesh
	ids := map[string]string{}
	for _, p := range []*dev.Process{m.Cores[0], m.Entries[0]} {
		ids[p.Name] = string(newestIdentity(t, p))
	}
	for _, p := range []*dev.Process{m.Entries[0], m.Cores[0], m.Mgmt} {
		t.Run(p.Name, func(t *testing.T) {
			stop(t, p)
			for _, file := range stateFiles(t, dataDir(p)) {
				for name, damage := range damages {
					if _, mends := mendedBy(file); mends && name != "full of zeros" {
						continue // one start each, since these are whole starts
					}
					damaged(t, p, file, name, damage)
				}
			}
			restart(t, m, p)
		})
	}
	m.Admin.ResetConnectBackoff()
	if is := call(t, m, admin.StatusGet, admin.None{}).Mesh; is != was {
		t.Errorf("mesh %s has become %s", was, is)
	}
	for _, p := range []*dev.Process{m.Cores[0], m.Entries[0]} {
		if string(newestIdentity(t, p)) != ids[p.Name] {
			t.Errorf("%s has become another node", p.Name)
		}
	}
	c, echo := clientOf(t, m, string(m.Device.ID), m.Link), echoServer(t)
	eventually(t, patience, "all is well again", func() error { return c.tryEcho(t.Context(), m.EntryAddresses[0], echo) })
}

func stop(t *testing.T, p *dev.Process) {
	t.Helper()
	if err := p.Stop(patience); err != nil {
		t.Fatal(err)
	}
}

// stateFiles are the files whose content means something; the previous versions
// beside them and etcd's own have tests of their own.
func stateFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	eachFile(t, dir, func(path string, content []byte) {
		if len(content) > 0 && !strings.HasSuffix(path, ".old") && !strings.Contains(path, "/etcd/") {
			out = append(out, path)
		}
	})
	if len(out) < 3 {
		t.Fatalf("%s holds only %v", dir, out)
	}
	return out
}

// damaged starts a part on a damaged file: it refuses with one line that names
// the file, or mends what can be mended and says so. Then the file is whole.
func damaged(t *testing.T, p *dev.Process, file, name string, damage func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, damage(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	o, up := untilReady(t, p)
	says, mends := mendedBy(file)
	switch {
	case up && !mends:
		t.Errorf("%s %s: it starts as if nothing were:\n%s", file, name, o.stderr)
	case up && !strings.Contains(o.stderr, says):
		t.Errorf("%s %s: nobody is told:\n%s", file, name, o.stderr)
	case !up:
		o.refused(t, exitConfig, file)
	}
	if !up { // otherwise it is mended already
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// untilReady runs a part as it is configured until it is ready or ends.
func untilReady(t *testing.T, p *dev.Process) (o outcome, up bool) {
	t.Helper()
	args := map[bool][]string{true: {"mgmt", "serve"}, false: {strings.Split(p.Name, "-")[0], "run"}}[p.Name == "mgmt"]
	b := command{args: append(slices.Clone(args), "--config", filepath.Join(p.Dir, "config.yaml"))}.start(t)
	eventually(t, patience, "ready or ended", func() error {
		if b.over() {
			return nil
		}
		return isReady(t.Context(), p.Health)
	})
	up = !b.over()
	b.signal(t, syscall.SIGTERM)
	code := b.ended(t)
	return outcome{command{args: b.Args}, code, "", b.out.String()}, up
}

func TestDamagedEtcd(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, was := s.mustServe(t)
	s.stop(t, b)
	etcd := filepath.Join(s.dir, "etcd")
	logs, err := filepath.Glob(filepath.Join(etcd, "member", "wal", "0*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	for name, file := range map[string]string{"log": logs[0], "database": filepath.Join(etcd, "member", "snap", "db")} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(content)
		clear(bad[:16<<10])
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s.command().run(t).refused(t, exitConfig, etcd, "damaged").hinted(t, "copy of the folder")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	aside := etcd + ".aside"
	if err := os.Rename(etcd, aside); err != nil {
		t.Fatal(err)
	}
	s.command().run(t).refused(t, exitConfig, etcd, "gone").hinted(t, "restore")
	if err := os.RemoveAll(etcd); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, etcd); err != nil {
		t.Fatal(err)
	}
	b, is := s.mustServe(t)
	if is != was {
		t.Errorf("mesh %s has become %s", was, is)
	}
	s.stop(t, b)
}
