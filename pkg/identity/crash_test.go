package identity_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// crashVar tells this test's own binary to be the process that is killed.
const crashVar = "MESHCTL_TEST_CRASH"

// crash is what that process does: ask for a certificate, or commit the chain
// that came, until it is killed before a step of writing.
type crash struct {
	Dir    string
	Step   int
	Commit bool
	Chain  [][]byte
}

func TestMain(m *testing.M) {
	if text := os.Getenv(crashVar); text != "" {
		os.Exit(crashing(text))
	}
	os.Exit(m.Run())
}

// crashing returns 0 when there was no such step any more.
func crashing(text string) int {
	var c crash
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	f, err := identity.OpenFolder(c.Dir)
	if err != nil {
		panic(err)
	}
	f.KillAt(c.Step)
	p, err := f.NewRequest()
	if err == nil && c.Commit {
		_, err = f.Commit(p, c.Chain)
	}
	if err != nil {
		panic(err)
	}
	return 0
}

// killed runs it and says whether it was killed.
func (c crash) killed(t *testing.T) bool {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashVar+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	end, ok := errors.AsType[*exec.ExitError](err)
	if !ok || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("step %d: %v\n%s", c.Step, err, out)
	}
	return true
}

// H-07: whichever step of enrolling or renewing a kill comes before, what opens
// afterwards is the old set or the new one and the node can go on. The same with
// each file that lies there then zeroed or emptied: the set before, or an error
// that names the file.
func TestKilledAtEachStepOfWriting(t *testing.T) {
	for _, tt := range []struct {
		name           string
		enrolled, done bool
		least          int // steps
	}{
		{"a key for the first certificate", false, false, 5},
		{"the first certificate", false, true, 6},
		{"a key for the next certificate", true, false, 5},
		{"the next certificate", true, true, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := identitytest.New(t)
			id := m.Identity(mesh.RoleCore)
			for step := 0; ; step++ {
				c := crash{Dir: filepath.Join(t.TempDir(), "id"), Step: step, Commit: tt.done}
				f := open(t, c.Dir)
				old, key := "", ""
				if tt.enrolled {
					commit(t, f, m, id)
					old = serialOf(commit(t, f, m, id)) // a version before lies beside it
				}
				if tt.done {
					p := request(t, f)
					c.Chain, key = m.Answer(t, id, p.CSR()), p.KeyHash()
				}
				killed := c.killed(t)
				for _, damage := range damages(t, c.Dir) {
					(&wreck{dir: c.Dir, mesh: m, id: id, old: old, key: key, done: !killed && tt.done, damage: damage}).opens(t)
				}
				if !killed {
					if step < tt.least {
						t.Errorf("only %d steps", step)
					}
					return
				}
			}
		})
	}
}

// wreck is a folder after a kill, and after damage to one of its files.
type wreck struct {
	dir      string
	mesh     *identitytest.Mesh
	id       mesh.Identity
	old, key string // serial before, key of the certificate that came
	done     bool   // nothing was killed
	damage   harm
}

// harm is what a disk does to one file; none to "".
type harm struct {
	file   string
	change func([]byte) []byte
}

func damages(t *testing.T, dir string) []harm {
	out := []harm{{}}
	for _, name := range files(t, dir) {
		out = append(out, harm{name, func(b []byte) []byte { return make([]byte, len(b)) }}, harm{name, func([]byte) []byte { return nil }})
	}
	return out
}

func (w *wreck) opens(t *testing.T) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files(t, dir), "") {
		mode := os.FileMode(0o600)
		if path == "" {
			mode = 0o700
		}
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if w.damage.file != "" {
		ruin(t, filepath.Join(dir, w.damage.file), w.damage.change)
	}
	f := open(t, dir)
	n, err := f.Load()
	switch {
	case err == nil:
		w.whole(t, n)
	case errors.Is(err, mesh.ErrNotFound) && w.old == "" && !w.done: // not enrolled yet
	case errors.Is(err, mesh.ErrInvalid) && w.damage.file != "" && strings.Contains(err.Error(), w.damage.file) && mesh.Hint(err) != "":
		return // the only one there was
	default:
		t.Fatalf("with %q damaged: %v", w.damage.file, err)
	}
	p, err := f.NewRequest()
	if err != nil {
		if n != nil || !strings.Contains(err.Error(), w.damage.file) {
			t.Fatalf("with %q damaged, it cannot ask for a certificate: %v", w.damage.file, err)
		}
		return
	}
	next, err := f.Commit(p, w.mesh.Answer(t, w.id, p.CSR()))
	if err != nil {
		t.Fatalf("with %q damaged, it does not go on: %v", w.damage.file, err)
	}
	if got, err := f.Load(); err != nil || serialOf(got) != serialOf(next) {
		t.Fatalf("with %q damaged, the next identity does not load: %v", w.damage.file, err)
	}
}

// whole wants the old set, the new one or, when the newest file was damaged,
// the one before; never a mix, which Load would not notice if key and chain
// came from two files.
func (w *wreck) whole(t *testing.T, n *identity.Node) {
	t.Helper()
	renewed := w.key != "" && identity.KeyHash(n.Leaf().PublicKey) == w.key
	switch {
	case n.Identity() != w.id || !bytes.Equal(n.Root().Raw, w.mesh.Root.Raw):
		t.Errorf("another identity, %s", n.Identity())
	case w.damage.file != "":
	case w.done && !renewed:
		t.Error("the new certificate was committed and is not there")
	case !renewed && serialOf(n) != w.old:
		t.Errorf("neither the old certificate nor the new one: %s, step %s", serialOf(n), strconv.Quote(w.old))
	}
}
