package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// impostor answers in a management server's place and keeps all it receives:
// what is on the wire, and what TLS lets through.
type impostor struct {
	addr        string
	wire, plain *lockedBuffer
	handshakes  chan error
}

func newImpostor(t *testing.T, cert tls.Certificate) *impostor {
	t.Helper()
	i := &impostor{wire: new(lockedBuffer), plain: new(lockedBuffer), handshakes: make(chan error, 16)}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	i.addr = serve(t, "127.0.0.1:0", func(c *net.TCPConn) {
		conn := tls.Server(recorded{c, i.wire}, config)
		i.handshakes <- conn.Handshake()
		_, _ = io.Copy(i.plain, conn) // ends with the connection; what came is kept
	})
	return i
}

type recorded struct {
	net.Conn
	log io.Writer
}

func (r recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if _, werr := r.log.Write(p[:n]); werr != nil {
		return n, werr
	}
	return n, err
}

func TestTheSecretIsNotSentBeforeThePinHolds(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	core := tlsIdentity(t, m.Cores[0])
	self := identitytest.New(t)
	certs := map[string]tls.Certificate{
		"a mesh of its own":                         certificate(t, self, mesh.RoleMgmt),
		"a mesh of its own with the right root too": withRoot(certificate(t, self, mesh.RoleMgmt), core),
		"a core of this very mesh":                  core,
	}
	for name, cert := range certs {
		t.Run(name, func(t *testing.T) {
			fake := newImpostor(t, cert)
			token := changed(t, coreToken(t, m, "pin").Token, func(j *mesh.JoinToken) { j.Addresses = []string{fake.addr} })
			dir := filepath.Join(t.TempDir(), "core")
			enrollOnly(t, token, dir).refused(t, exitFailure, fake.addr, "is not of the mesh that made this token")
			if err := <-fake.handshakes; err == nil {
				t.Error("the handshake was completed")
			}
			if got := fake.plain.String(); got != "" {
				t.Errorf("it received %d bytes: %q", len(got), got)
			}
			j, err := mesh.ParseJoinToken(token)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{token, j.Secret.Reveal(), string(j.ID)} {
				if strings.Contains(fake.wire.String(), secret) {
					t.Error("the secret was on the wire")
				}
			}
			empty(t, dir)
		})
	}
}

// withRoot appends the last certificate of another chain.
func withRoot(cert, other tls.Certificate) tls.Certificate {
	cert.Certificate = append(cert.Certificate[:len(cert.Certificate):len(cert.Certificate)], other.Certificate[len(other.Certificate)-1])
	return cert
}

func certificate(t *testing.T, m *identitytest.Mesh, role mesh.Role) tls.Certificate {
	t.Helper()
	key := identitytest.Key(t)
	return tls.Certificate{Certificate: m.Chain(t, m.Identity(role), key.Public()), PrivateKey: key}
}

// cutter stands before the management server and cuts the connection that
// carries the answer which follows the use of the token.
type cutter struct {
	addr string
	mu   sync.Mutex // guards cuts
	cuts int
}

// newCutter cuts as long as used says so and cuts are left.
func newCutter(t *testing.T, server string, cuts int, used func() bool) *cutter {
	t.Helper()
	c := &cutter{cuts: cuts}
	c.addr = serve(t, "127.0.0.1:0", func(client *net.TCPConn) {
		up, err := net.Dial("tcp", server)
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		go func() {
			_, _ = io.Copy(up, client) // ends when either side is closed
		}()
		var buf [4096]byte
		for {
			n, err := up.Read(buf[:])
			if err != nil || used() && c.cut() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	return c
}

func (c *cutter) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts--
	return c.cuts >= 0
}

func TestAReplyLostAfterTheTokenWasUsed(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	server := m.Mgmt.Config["listen"].(string)
	through := func(t *testing.T, name string, cuts int) (admin.TokenCreated, string) {
		token := coreToken(t, m, name)
		c := newCutter(t, server, cuts, func() bool {
			s, err := admin.TokenGet.Call(t.Context(), m.Admin, admin.Ref{Ref: string(token.ID)})
			return err == nil && s.State == mesh.TokenUsed
		})
		return token, changed(t, token.Token, func(j *mesh.JoinToken) { j.Addresses = []string{c.addr} })
	}
	t.Run("the next run of the command gets the certificate", func(t *testing.T) {
		token, text := through(t, "lost-once", 1)
		dir := filepath.Join(t.TempDir(), "core")
		enrollOnly(t, text, dir).refused(t, exitUnavailable, "no management server could be reached")
		empty(t, dir)
		enrollOnly(t, text, dir).want(t, exitOK, "joined as core-")
		oneNode(t, m, token, "lost-once")
		enrollOnly(t, text, filepath.Join(t.TempDir(), "core")).refused(t, exitFailure, "already used")
	})
	t.Run("with --wait the same run gets it", func(t *testing.T) {
		token, text := through(t, "lost-twice", 2)
		meshctl(t, "core", "join", "--token-file", secretFile(t, text), "--enroll-only", "--wait", "--dir", filepath.Join(t.TempDir(), "core")).
			want(t, exitOK, "joined as core-")
		oneNode(t, m, token, "lost-twice")
	})
}

func oneNode(t *testing.T, m *dev.Mesh, token admin.TokenCreated, name string) {
	t.Helper()
	if n := countCores(t, m, name); n != 1 {
		t.Errorf("%d cores were made", n)
	}
	if s := call(t, m, admin.TokenGet, admin.Ref{Ref: string(token.ID)}).State; s != mesh.TokenUsed {
		t.Errorf("the token is %s", s)
	}
}

// serve accepts on addr until the test ends and waits for its handlers.
func serve(t testing.TB, addr string, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards open
	open := map[net.Conn]struct{}{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			open[c] = struct{}{}
			mu.Unlock()
			wg.Go(func() {
				defer func() {
					_ = c.Close() // the handler may have
					mu.Lock()
					delete(open, c)
					mu.Unlock()
				}()
				handle(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close() // ends the handler
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// tlsIdentity is what a thief finds in a node's folder.
func tlsIdentity(t *testing.T, p *dev.Process) tls.Certificate {
	t.Helper()
	pem := newestIdentity(t, p)
	cert, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(pem, []byte("PRIVATE KEY")) != 2 {
		t.Fatal("the file holds no key")
	}
	return cert
}
