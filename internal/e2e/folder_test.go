package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// roleStart starts a role in a folder, with what it needs to begin.
type roleStart struct {
	role  string
	start func(t *testing.T, dir string, more ...string) outcome
}

func roleStarts(t *testing.T) []roleStart {
	m := sharedMesh(t)
	return []roleStart{
		{"mgmt", func(t *testing.T, dir string, more ...string) outcome {
			s := newServer(t)
			s.dir = dir
			return s.command(more...).run(t)
		}},
		{"core", func(t *testing.T, dir string, more ...string) outcome {
			token := secretFile(t, coreToken(t, m, "folder-core").Token)
			return meshctl(t, append([]string{"core", "join", "--token-file", token, "--dir", dir, "--listen", "127.0.0.1:0", "--metrics-listen", ""}, more...)...)
		}},
		{"entry", func(t *testing.T, dir string, more ...string) outcome {
			return meshctl(t, append([]string{"entry", "run", "--token-file", secretFile(t, coreToken(t, m, "no").Token), "--dir", dir,
				"--limits-connections", "64", "--listen", "127.0.0.1:0", "--metrics-listen", ""}, more...)...)
		}},
	}
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, r := range roleStarts(t) {
		t.Run(r.role, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			below := filepath.Join(file, "data") // nobody can write there, root neither
			r.start(t, below).refused(t, exitConfig, file, "not a directory")
			r.start(t, file).refused(t, exitConfig, file)
			r.start(t, "/proc/nothing/data").refused(t, exitConfig, "/proc/nothing")
			r.start(t, "relative").refused(t, exitConfig, "dir", "relative", "absolute")

			open := filepath.Join(t.TempDir(), "open")
			if err := os.Mkdir(open, 0o755); err != nil {
				t.Fatal(err)
			}
			r.start(t, open).refused(t, exitConfig, open, "0755").hinted(t, "chmod")
			if files, err := os.ReadDir(open); err != nil || len(files) > 0 {
				t.Errorf("it wrote %v into an open folder, %v", files, err)
			}
		})
	}
}

func TestFilesThatOthersCanRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "core")
	enrollOnly(t, coreToken(t, sharedMesh(t), "leaky").Token, dir).want(t, exitOK)
	key := filepath.Join(dir, "identity", "identity-1.pem")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	meshctl(t, "core", "run", "--dir", dir, "--listen", "127.0.0.1:0").refused(t, exitConfig, key, "0644").hinted(t, "chmod")

	s := newServer(t)
	b, _ := s.mustServe(t)
	s.stop(t, b)
	for _, name := range []string{"data.key", "intermediate.key", "etcd-ca.pem", "root.sealed", "node/identity-1.pem"} {
		file := filepath.Join(s.dir, name)
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		s.command().run(t).refused(t, exitConfig, file).hinted(t, "chmod")
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesAreMadeForTheirOwnerWhateverTheUmask(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t) // its parts inherit this process's umask, 022 as a rule
	for _, p := range slices.Concat(m.Cores, m.Entries) {
		private(t, dataDir(p))
	}
	private(t, dataDir(m.Mgmt))
	dir := filepath.Join(t.TempDir(), "core")
	token := secretFile(t, coreToken(t, m, "umask").Token)
	c := command{args: []string{"core", "join", "--enroll-only", "--token-file", token, "--dir", dir}}
	c.umask(t, 0)
	private(t, dir)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().String()
	m := sharedMesh(t)
	core := filepath.Join(t.TempDir(), "core")
	enrollOnly(t, coreToken(t, m, "busy").Token, core).want(t, exitOK)
	// It may mend itself, so it is no fault of configuration.
	for _, flag := range []string{"--listen", "--metrics-listen"} {
		meshctl(t, "core", "run", "--dir", core, "--listen", "127.0.0.1:0", "--metrics-listen", "", flag, busy).
			refusedSoftly(t, flag[2:], busy, "in use")
		newServer(t).command(flag, busy).run(t).refusedSoftly(t, flag[2:], busy, "in use")
	}
	for _, flag := range []string{"--etcd-client-listen", "--etcd-peer-listen"} {
		newServer(t).command(flag, busy).run(t).refusedSoftly(t, busy, "in use")
	}
}
