package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// gitRemote is a repository that backups go to, and how it is logged in to: flags
// of `admin backup remote add` and of `mgmt restore`.
type gitRemote struct {
	name, url, dir string
	add, restore   []string
}

// need finds a program of the system.
func need(t *testing.T, program, debian string) string {
	t.Helper()
	for _, p := range []string{program, "/usr/sbin/" + program, "/usr/lib/git-core/" + program} {
		if found, err := exec.LookPath(p); err == nil {
			return found
		}
	}
	t.Fatalf("%s is not here: install the Debian package %s", program, debian)
	return ""
}

// bareRepository is an empty one, in a folder of its own.
func bareRepository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mesh.git")
	for _, args := range [][]string{{"init", "--quiet", "--bare", "--initial-branch=main", dir}, {"-C", dir, "config", "http.receivepack", "true"}} {
		if text, err := exec.Command(need(t, "git", "git"), args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
	return dir
}

func pathRemote(t *testing.T) gitRemote {
	dir := bareRepository(t)
	return gitRemote{name: "disk", url: dir, dir: dir}
}

// sshRemote is behind a real sshd on loopback.
func sshRemote(t *testing.T) gitRemote {
	t.Helper()
	dir, at := t.TempDir(), freeport.Addr(t)
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	hostPub, own := sshKey(t, filepath.Join(dir, "host")), filepath.Join(dir, "own")
	authorized, known := filepath.Join(dir, "authorized"), filepath.Join(dir, "known")
	writePrivate(t, authorized, string(ssh.MarshalAuthorizedKey(sshKey(t, own))))
	writePrivate(t, known, knownhosts.Line([]string{knownhosts.Normalize(at)}, hostPub)+"\n")
	if os.Getuid() == 0 { // where sshd of root gives up its rights
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-D", "-e", "-f", "/dev/null"}
	for _, o := range []string{
		"ListenAddress=" + host, "Port=" + port, "HostKey=" + filepath.Join(dir, "host"), "AuthorizedKeysFile=" + authorized,
		"StrictModes=no", "UsePAM=no", "PidFile=none", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "LogLevel=ERROR",
	} {
		args = append(args, "-o", o)
	}
	sshd := exec.Command(need(t, "sshd", "openssh-server"), args...)
	log := new(lockedBuffer)
	sshd.Stderr = log
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sshd.Process.Kill() // it may have ended
		_ = sshd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log)
		}
	})
	eventually(t, patience, "sshd listens", func() error {
		c, err := dial(t.Context(), at)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	repository := bareRepository(t)
	login := []string{"--ssh-key", own, "--known-hosts", known}
	return gitRemote{name: "shell", url: "ssh://" + u.Username + "@" + at + repository, dir: repository, add: login, restore: login}
}

// sshKey writes a new key to a file and returns its public half.
func sshKey(t *testing.T, file string) ssh.PublicKey {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	writePrivate(t, file, string(pem.EncodeToMemory(block)))
	out, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writePrivate(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// httpsRemote is git http-backend behind TLS and a token. Its certificate becomes
// the only one that programs started from now on trust.
func httpsRemote(t *testing.T) gitRemote {
	t.Helper()
	dir, token := bareRepository(t), mesh.NewSecret(20).Reveal()
	h := &cgi.Handler{
		Path: need(t, "git-http-backend", "git"), InheritEnv: []string{"PATH"}, Stderr: t.Output(),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir(), "REMOTE_USER=git"},
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, got, _ := req.BasicAuth(); got != token {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, req)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	writePrivate(t, roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	t.Setenv("SSL_CERT_FILE", roots)
	file := secretFile(t, token)
	return gitRemote{
		name: "web", url: s.URL + "/" + filepath.Base(dir), dir: dir,
		add: []string{"--token-file", file}, restore: []string{"--git-token-file", file},
	}
}
