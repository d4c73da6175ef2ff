package identity_test

import (
	"bytes"
	"crypto"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func open(t *testing.T, dir string) *identity.Folder {
	t.Helper()
	f, err := identity.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func request(t *testing.T, f *identity.Folder) *identity.Pending {
	t.Helper()
	p, err := f.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func commit(t *testing.T, f *identity.Folder, m *identitytest.Mesh, id mesh.Identity) *identity.Node {
	t.Helper()
	p := request(t, f)
	n, err := f.Commit(p, m.Answer(t, id, p.CSR()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func serialOf(n *identity.Node) string { return n.Leaf().SerialNumber.String() }

func TestFolderFromNothing(t *testing.T) {
	m := identitytest.New(t)
	dir := filepath.Join(t.TempDir(), "id")
	f := open(t, dir)
	if _, err := f.Load(); !errors.Is(err, mesh.ErrNotFound) || mesh.Hint(err) == "" {
		t.Fatalf("empty folder: %v", err)
	}
	first := commit(t, f, m, m.Identity(mesh.RoleCore))
	got, err := open(t, dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	if got.Identity() != first.Identity() || serialOf(got) != serialOf(first) || !got.Root().Equal(m.Root) {
		t.Fatal("another identity came back")
	}
}

func TestFolderModesWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o777} {
		old := syscall.Umask(umask)
		m := identitytest.New(t)
		dir := filepath.Join(t.TempDir(), "id")
		syscall.Umask(old)
		if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		syscall.Umask(umask)
		f, err := identity.OpenFolder(dir)
		if err != nil {
			syscall.Umask(old)
			t.Fatal(err)
		}
		n := commit(t, f, m, m.Identity(mesh.RoleCore))
		request(t, f)
		syscall.Umask(old)
		if n == nil {
			t.Fatal("no node")
		}
		wantMode(t, dir, 0o700)
		for _, name := range files(t, dir) {
			wantMode(t, filepath.Join(dir, name), 0o600)
		}
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != want {
		t.Errorf("%s has mode %o, want %o", path, st.Mode().Perm(), want)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFolderRefusesLooserModes(t *testing.T) {
	m := identitytest.New(t)
	dir := filepath.Join(t.TempDir(), "id")
	f := open(t, dir)
	id := m.Identity(mesh.RoleCore)
	commit(t, f, m, id)
	commit(t, f, m, id)
	request(t, f)
	for _, name := range files(t, dir) {
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		_, loadErr := f.Load()
		_, requestErr := f.NewRequest()
		if !errors.Is(errors.Join(loadErr, requestErr), mesh.ErrInvalid) {
			t.Errorf("%s readable by the group was accepted", name)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := identity.OpenFolder(dir)
	if !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(mesh.Hint(err), "chmod 0700") {
		t.Fatalf("open folder of mode 0755: %v (hint %q)", err, mesh.Hint(err))
	}
}

func TestLostReplyKeepsTheKey(t *testing.T) {
	m := identitytest.New(t)
	dir := filepath.Join(t.TempDir(), "id")
	first := request(t, open(t, dir)).KeyHash()
	f := open(t, dir) // the process died and starts again
	if again := request(t, f).KeyHash(); again != first {
		t.Fatal("another key asks for the certificate again")
	}
	commit(t, f, m, m.Identity(mesh.RoleCore))
	if next := request(t, f).KeyHash(); next == first {
		t.Fatal("a renewal uses the old key")
	}
}

func TestCommitRefuses(t *testing.T) {
	m := identitytest.New(t)
	foreign := identitytest.NewWithID(t, m.ID)
	id := m.Identity(mesh.RoleCore)
	var pin [32]byte = foreign.RootHash()
	tests := map[string]struct {
		chain func(csr []byte) [][]byte
		pin   [32]byte
	}{
		"nothing":                          {func([]byte) [][]byte { return nil }, [32]byte{}},
		"another key's certificate":        {func([]byte) [][]byte { return m.Chain(t, id, identitytest.Key(t).Public()) }, [32]byte{}},
		"another CA of the same name":      {func(csr []byte) [][]byte { return foreign.Answer(t, id, csr) }, [32]byte{}},
		"another node's id":                {func(csr []byte) [][]byte { return m.Answer(t, m.Identity(mesh.RoleCore), csr) }, [32]byte{}},
		"another role":                     {func(csr []byte) [][]byte { return m.Answer(t, m.Identity(mesh.RoleEntry), csr) }, [32]byte{}},
		"two names":                        {func(csr []byte) [][]byte { return m.Answer(t, id, csr, identitytest.Also(m.Identity(mesh.RoleCore))) }, [32]byte{}},
		"a certificate that ended":         {func(csr []byte) [][]byte { return m.Answer(t, id, csr, identitytest.Expired(time.Minute)) }, [32]byte{}},
		"one that has not begun":           {func(csr []byte) [][]byte { return m.Answer(t, id, csr, identitytest.NotYet(time.Hour)) }, [32]byte{}},
		"a chain without root":             {func(csr []byte) [][]byte { return m.Answer(t, id, csr)[:2] }, [32]byte{}},
		"garbage":                          {func(csr []byte) [][]byte { return [][]byte{csr, csr, csr} }, [32]byte{}},
		"another root than the token says": {func(csr []byte) [][]byte { return m.Answer(t, id, csr) }, pin},
	}
	f, have := m.Folder(t, id)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := request(t, f)
			p.Pin = tt.pin
			if _, err := f.Commit(p, tt.chain(p.CSR())); err == nil {
				t.Fatal("committed")
			}
			if n, err := f.Load(); err != nil || serialOf(n) != serialOf(have) {
				t.Fatalf("the identity before is gone: %v", err)
			}
		})
	}
}

func TestEndedIdentityMayBecomeAnother(t *testing.T) {
	m := identitytest.New(t)
	f := open(t, filepath.Join(t.TempDir(), "id"))
	f.SetNow(func() time.Time { return time.Now().Add(-48 * time.Hour) })
	p := request(t, f)
	if _, err := f.Commit(p, m.Answer(t, m.Identity(mesh.RoleCore), p.CSR(), identitytest.Expired(36*time.Hour))); err != nil {
		t.Fatal(err)
	}
	f.SetNow(time.Now)
	if n, err := f.Load(); err != nil || time.Now().Before(n.Leaf().NotAfter) {
		t.Fatalf("an ended identity must load: %v", err)
	}
	rejoined := m.Identity(mesh.RoleCore)
	if n := commit(t, f, m, rejoined); n.Identity() != rejoined {
		t.Fatal("not the new identity")
	}
}

// TestCrashWhileCommitting stops after each step of writing and starts again:
// what loads is the old set or the new one, whole.
func TestCrashWhileCommitting(t *testing.T) {
	gone := errors.New("power cut")
	m := identitytest.New(t)
	id := m.Identity(mesh.RoleCore)
	for step := 0; ; step++ {
		dir := filepath.Join(t.TempDir(), "id")
		f := open(t, dir)
		old := serialOf(commit(t, f, m, id))
		p := request(t, f)
		chain := m.Answer(t, id, p.CSR())
		f.FailAt(step, gone)
		_, err := f.Commit(p, chain)
		again := open(t, dir)
		n, loadErr := again.Load()
		if loadErr != nil {
			t.Fatalf("step %d: %v", step, loadErr)
		}
		renewed := serialOf(n) != old
		if renewed && identity.KeyHash(n.Leaf().PublicKey) != p.KeyHash() {
			t.Fatalf("step %d: a mix", step)
		}
		if next := request(t, again); renewed == (next.KeyHash() == p.KeyHash()) {
			t.Fatalf("step %d: renewed %v, but the pending key does not fit", step, renewed)
		}
		if err == nil {
			if step < 5 || !renewed {
				t.Fatalf("only %d steps, renewed %v", step, renewed)
			}
			return
		}
	}
}

// TestTornFiles damages the newest file in every way a disk may: the version
// before serves, and without one the error names the file.
func TestTornFiles(t *testing.T) {
	damage := map[string]func([]byte) []byte{
		"emptied":         func([]byte) []byte { return nil },
		"cut to half":     func(b []byte) []byte { return b[:len(b)/2] },
		"cut by one line": func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')] },
		"zeroed":          func(b []byte) []byte { return make([]byte, len(b)) },
		"end zeroed":      func(b []byte) []byte { return append(b[:len(b)-200:len(b)-200], make([]byte, 200)...) },
		"begin zeroed":    func(b []byte) []byte { return append(make([]byte, 50), b[50:]...) },
	}
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			m := identitytest.New(t)
			dir := filepath.Join(t.TempDir(), "id")
			f := open(t, dir)
			id := m.Identity(mesh.RoleCore)
			old := commit(t, f, m, id)
			commit(t, f, m, id)
			ruin(t, filepath.Join(dir, "identity-2.pem"), change)
			n, err := f.Load()
			if err != nil || serialOf(n) != serialOf(old) {
				t.Fatalf("the version before does not serve: %v", err)
			}
			third := commit(t, f, m, id)
			ruin(t, filepath.Join(dir, "identity-3.pem"), change)
			if n, err := f.Load(); err != nil || serialOf(n) != serialOf(old) || serialOf(n) == serialOf(third) {
				t.Fatalf("the damaged version was kept instead of the good one: %v", err)
			}
			ruin(t, filepath.Join(dir, "identity-1.pem"), change)
			_, err = f.Load()
			if !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), "identity-1.pem") || mesh.Hint(err) == "" {
				t.Fatalf("both damaged: %v", err)
			}
			request(t, f)
			ruin(t, filepath.Join(dir, "pending-key.pem"), change)
			if _, err := f.NewRequest(); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), "pending-key.pem") {
				t.Fatalf("damaged pending key: %v", err)
			}
		})
	}
}

func ruin(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSettleKeepsOnlyTheNewest(t *testing.T) {
	m := identitytest.New(t)
	dir := filepath.Join(t.TempDir(), "id")
	f := open(t, dir)
	id := m.Identity(mesh.RoleCore)
	for range 4 {
		commit(t, f, m, id)
	}
	if got := len(files(t, dir)); got != 2 {
		t.Fatalf("%d files before settling, want the newest and the one before", got)
	}
	if err := f.Settle(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); len(got) != 1 || got[0] != "identity-4.pem" {
		t.Fatalf("left: %v", got)
	}
}

func TestNewNodeRefusesWhatDoesNotBelongTogether(t *testing.T) {
	m := identitytest.New(t)
	id, key := m.Identity(mesh.RoleCore), identitytest.Key(t)
	chain := m.Chain(t, id, key.Public())
	var other crypto.Signer = identitytest.Key(t)
	if _, err := identity.NewNode(id, chain, other); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
	if _, err := identity.NewNode(m.Identity(mesh.RoleCore), chain, key); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("another id: %v", err)
	}
	if _, err := identity.NewNode(id, [][]byte{chain[0], identitytest.New(t).Intermediate.Raw, chain[2]}, key); !errors.Is(err, mesh.ErrInvalid) {
		t.Errorf("another intermediate: %v", err)
	}
}
