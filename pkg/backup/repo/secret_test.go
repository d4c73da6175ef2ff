package repo

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestCredentialsStayInMemory looks for them, while a push is under way, in the
// arguments and the environment of every process and in every file of the
// clone, and afterwards in what the clone holds.
func TestCredentialsStayInMemory(t *testing.T) {
	everyRemote(t, func(t *testing.T, rm Remote, dir string) {
		if rm.Credential == "" {
			rm.Credential = "canary-of-a-path"
		}
		secrets := [][]byte{[]byte(rm.Credential.Reveal())}
		if rm.Auth == mesh.BackupAuthSSHKey {
			secrets = append(secrets, []byte(strings.Split(rm.Credential.Reveal(), "\n")[2]))
		}
		r := open(t, Options{})
		put(t, r, "one", file("a", strings.Repeat("text\n", 100)))
		var looked atomic.Int32
		r.step = func(point string) {
			if point == "sending" {
				looked.Add(1)
				lookInProcesses(t, secrets)
				lookInFiles(t, filepath.Dir(r.dir), secrets)
			}
		}
		push(t, r, rm)
		if looked.Load() == 0 {
			t.Error("never looked")
		}
		lookInFiles(t, filepath.Dir(r.dir), secrets)
		rm.URL += "-that-is-not-there"
		_, err := r.Fetch(t.Context(), rm)
		if err == nil {
			t.Fatal("fetched from nowhere")
		}
		for _, s := range secrets {
			if bytes.Contains([]byte(err.Error()+mesh.Hint(err)), s) {
				t.Errorf("the error holds it: %v", err)
			}
		}
	})
}

func lookInProcesses(t *testing.T, secrets [][]byte) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, p := range procs {
		for _, f := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(filepath.Join(p, f))
			if err != nil {
				continue // it has ended, or is somebody else's
			}
			for _, s := range secrets {
				if bytes.Contains(b, s) {
					t.Errorf("%s/%s holds a credential", p, f)
				}
			}
		}
	}
}

func lookInFiles(t *testing.T, dir string, secrets [][]byte) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, s := range secrets {
			if bytes.Contains(b, s) {
				t.Errorf("%s holds a credential", path)
			}
		}
		return err
	}))
}

func TestRemotePrintsWithoutCredential(t *testing.T) {
	rm := Remote{Name: "x", URL: "https://example.net/x", Credential: "canary"}
	if s := rm.String() + rm.LogValue().String() + strconv.Quote(rm.Credential.String()); strings.Contains(s, "canary") {
		t.Error(s)
	}
}

// TestEchoedCredentialIsNotShown has a server that answers with what it was sent.
func TestEchoedCredentialIsNotShown(t *testing.T) {
	err := scrub(faultf(ReasonRefused, "the remote says %q: %w", "token canary-token is bad", mesh.ErrDenied), Remote{Name: "x", Credential: "canary-token\n"})
	if strings.Contains(err.Error(), "canary") || ReasonOf(err) != ReasonRefused {
		t.Errorf("%v (%s)", err, ReasonOf(err))
	}
}

// TestAgent logs in with a key that an SSH agent holds.
func TestAgent(t *testing.T) {
	s, dir := startSSH(t), bare(t)
	key, err := ssh.ParseRawPrivateKey([]byte(s.key.Reveal()))
	must(t, err)
	ring := agent.NewKeyring()
	must(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	sock := filepath.Join(t.TempDir(), "agent")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", sock)
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(ring, c) // ends with the connection
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	rm := s.remote(t, dir)
	rm.Auth, rm.Credential = mesh.BackupAuthAgent, ""
	r := open(t, Options{})
	put(t, r, "one", file("a", "1"))
	t.Setenv("SSH_AUTH_SOCK", "")
	if _, err := r.Fetch(t.Context(), rm); ReasonOf(err) != ReasonAuth {
		t.Errorf("without an agent: %v (%s)", err, ReasonOf(err))
	}
	t.Setenv("SSH_AUTH_SOCK", sock)
	push(t, r, rm)
}

// TestCommitsAreSigned has git verify them.
func TestCommitsAreSigned(t *testing.T) {
	need(t, "ssh-keygen", "openssh-client")
	r := open(t, Options{})
	key, pub := newKey(t)
	d, err := r.Begin("")
	must(t, err)
	must(t, d.Put(context.Background(), file("a", "1")))
	m := Meta{Message: "signed", When: epoch, SignKey: key, Email: "backup@example.net", Trailers: []Trailer{{TrailerRevision, "7"}}}
	id, err := d.Commit(t.Context(), m)
	must(t, err)
	if _, err := r.Tag("backup/x", id, m); err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(t.TempDir(), "signers")
	set(t, signers, "backup@example.net "+string(ssh.MarshalAuthorizedKey(pub)))
	git(t, r.dir, "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit", string(id))
	git(t, r.dir, "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-tag", "backup/x")
	git(t, r.dir, "fsck", "--strict")
	if c, err := r.Commit(id); err != nil || !c.Signed || c.Trailers[TrailerRevision] != "7" {
		t.Errorf("%+v (%v)", c, err)
	}
	m.SignKey = "not a key canary"
	m.Parents = []ID{id}
	d, err = r.Begin(id)
	must(t, err)
	must(t, d.Put(context.Background(), file("a", "2")))
	if _, err := d.Commit(t.Context(), m); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a bad key: %v", err)
	}
}
