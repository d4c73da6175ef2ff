package repo

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// sshServer is a real sshd on loopback that lets one key in.
type sshServer struct {
	addr, known string
	key         mesh.Secret
}

// newKey makes an SSH key: PEM, and the line of authorized_keys.
func newKey(t testing.TB) (mesh.Secret, ssh.PublicKey) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Secret(pem.EncodeToMemory(block)), sshPub
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func startSSH(t testing.TB) *sshServer {
	t.Helper()
	sshd := need(t, "sshd", "openssh-server")
	need(t, "git", "git")
	dir := t.TempDir()
	hostKey, hostPub := newKey(t)
	key, pub := newKey(t)
	write(t, filepath.Join(dir, "host"), []byte(hostKey.Reveal()))
	write(t, filepath.Join(dir, "authorized"), ssh.MarshalAuthorizedKey(pub))
	s := &sshServer{addr: freeport.Addr(t), key: key}
	s.known = knownhosts.Line([]string{knownhosts.Normalize(s.addr)}, hostPub)
	host, port, _ := net.SplitHostPort(s.addr)
	args := []string{"-D", "-e", "-f", "/dev/null"}
	for _, o := range []string{
		"ListenAddress=" + host, "Port=" + port, "HostKey=" + filepath.Join(dir, "host"),
		"AuthorizedKeysFile=" + filepath.Join(dir, "authorized"), "StrictModes=no", "UsePAM=no",
		"PidFile=none", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "LogLevel=ERROR",
	} {
		args = append(args, "-o", o)
	}
	if os.Getuid() == 0 {
		// sshd as root gives up its rights in this folder, which the service's
		// start makes elsewhere.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(sshd, args...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() && log.Len() > 0 {
			t.Logf("sshd: %s", log.String())
		}
	})
	listening(t, s.addr)
	return s
}

func listening(t testing.TB, addr string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (s *sshServer) remote(t testing.TB, dir string) Remote {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return Remote{Name: "ssh", URL: "ssh://" + s.addr + dir, User: u.Username, Auth: mesh.BackupAuthSSHKey, Credential: s.key, KnownHosts: []string{s.known}}
}

// httpServer is git http-backend behind TLS and a token.
type httpServer struct {
	*httptest.Server
	token mesh.Secret
	roots *x509.CertPool

	mu  sync.Mutex
	saw []string // requests; guarded by mu
}

func startHTTP(t testing.TB, root string) *httpServer {
	t.Helper()
	backend := need(t, "git-http-backend", "git")
	s := &httpServer{token: mesh.NewSecret(20), roots: x509.NewCertPool()}
	h := &cgi.Handler{
		Path: backend, InheritEnv: []string{"PATH"}, Stderr: t.Output(),
		Env: append(safeEnv(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=git"),
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.saw = append(s.saw, req.Method+" "+req.URL.Path)
		s.mu.Unlock()
		if _, token, _ := req.BasicAuth(); token != s.token.Reveal() {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, "no such token: %s", token)
			return
		}
		if strings.HasPrefix(req.URL.Path, "/moved/") {
			http.Redirect(w, req, strings.TrimPrefix(req.URL.Path, "/moved")+"?"+req.URL.RawQuery, http.StatusMovedPermanently)
			return
		}
		h.ServeHTTP(w, req)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // handshakes that a test breaks
	s.StartTLS()
	t.Cleanup(s.Close)
	s.roots.AddCert(s.Certificate())
	return s
}

func (s *httpServer) remote(dir string) Remote {
	return Remote{Name: "web", URL: s.URL + "/" + filepath.Base(dir), Auth: mesh.BackupAuthToken, Credential: s.token, RootCAs: s.roots}
}

// everyRemote runs f with an empty repository behind each transport.
func everyRemote(t *testing.T, f func(t *testing.T, rm Remote, dir string)) {
	t.Run("path", func(t *testing.T) { dir := bare(t); f(t, local(dir), dir) })
	t.Run("ssh", func(t *testing.T) { s, dir := startSSH(t), bare(t); f(t, s.remote(t, dir), dir) })
	t.Run("https", func(t *testing.T) {
		dir := bare(t)
		git(t, dir, "config", "http.receivepack", "true")
		f(t, startHTTP(t, filepath.Dir(dir)).remote(dir), dir)
	})
}

// silent is a server that takes connections and says nothing, or one thing. An
// answer of HTTP waits for its question: one that comes before is none.
func silent(t testing.TB, say string) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer context.AfterFunc(ctx, func() { c.Close() })()
				defer c.Close()
				if strings.HasPrefix(say, "HTTP/") {
					if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
						return
					}
				}
				_, _ = c.Write([]byte(say))
				<-ctx.Done()
			})
		}
	})
	t.Cleanup(func() { cancel(); ln.Close(); wg.Wait() })
	return ln.Addr().String()
}
