package mgmt

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshctl/meshctl/internal/supervise"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// theWorld is one founded mesh with a running server, shared by the tests of
// the package: founding costs a key derivation and an etcd.
var theWorld struct {
	sync.Once
	*world
	err error
}

func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"mgmt", "aux"}) {
		breakDown() // this process is the child of a server under test
	}
	code := m.Run()
	if w := theWorld.world; w != nil {
		if err := w.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			code = 1
		}
		os.RemoveAll(w.dir)
	}
	if code == 0 {
		// Members of etcd leave connections to each other behind, which end by a
		// timeout of 5 s.
		err := goleak.Find()
		for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const passphrase = "correct horse battery staple"

// world is a running server and what tests need to reach it.
type world struct {
	dir  string
	conf Config
	logs *logBuffer
	*running
}

// running is one run of a server.
type running struct {
	*runtime
	addr Addresses
	end  context.CancelFunc
	done chan error
}

// logBuffer keeps all log lines, down to debug.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// testConfig listens on loopback ports that the system chooses.
func testConfig(dir string) Config {
	c := DefaultConfig()
	c.Dir, c.Name = dir, "alpha"
	c.MeshListen, c.MetricsListen = "127.0.0.1:0", "127.0.0.1:0"
	c.AdminListen, c.GatewayListen = "", ""
	c.Etcd.ClientListen, c.Etcd.PeerListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Founding.AllowedAddresses = []string{"127.0.0.0/8"}
	c.Rates, c.Aux.Memory = ample, childMemory
	return c
}

// start runs a server until it serves, or returns what stopped it.
func start(conf Config, logs *logBuffer, pass func(context.Context) (mesh.Secret, error), change ...func(*Server)) (*running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{end: cancel, done: make(chan error, 1)}
	up := make(chan struct{})
	s := &Server{Config: conf, Version: "test", Passphrase: pass, Log: logs.logger(), Up: func(a Addresses) { r.addr = a }}
	for _, c := range change {
		c(s)
	}
	go func() {
		r.done <- func() (err error) {
			if r.runtime, err = s.prepare(ctx); err != nil {
				return err
			}
			defer r.runtime.close()
			return supervise.Run(ctx, s.Log, r.units(func() { close(up) })...)
		}()
	}()
	select {
	case <-up:
		return r, nil
	case err := <-r.done:
		cancel()
		if err == nil {
			err = fmt.Errorf("the server ended before it served")
		}
		return nil, err
	case <-time.After(time.Minute):
		cancel()
		return nil, fmt.Errorf("the server does not serve within a minute:\n%s", logs)
	}
}

func (r *running) stop() error {
	r.end()
	select {
	case err := <-r.done:
		return err
	case <-time.After(30 * time.Second):
		return fmt.Errorf("it does not stop within 30 s")
	}
}

func givePassphrase(context.Context) (mesh.Secret, error) { return passphrase, nil }

// getWorld returns the shared server.
func getWorld(t testing.TB) *world {
	t.Helper()
	theWorld.Do(func() {
		dir, err := os.MkdirTemp("", "mgmt")
		if err != nil {
			theWorld.err = err
			return
		}
		w := &world{dir: dir, logs: new(logBuffer)}
		w.conf = testConfig(filepath.Join(dir, "data"))
		if w.conf.Subscription, theWorld.err = serviceFiles(dir); theWorld.err != nil {
			return
		}
		w.running, theWorld.err = start(w.conf, w.logs, givePassphrase)
		if theWorld.err == nil {
			theWorld.world = w
		}
	})
	if theWorld.err != nil {
		t.Fatal(theWorld.err)
	}
	return theWorld.world
}

// local is a client on the socket.
func (r *running) local(t testing.TB) *grpc.ClientConn {
	t.Helper()
	return newClient(t, "unix:"+r.addr.Socket, insecure.NewCredentials())
}

func newClient(t testing.TB, target string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// as is a client at addr with a node's certificate.
func as(t *testing.T, addr string, n *identity.Node) *grpc.ClientConn {
	t.Helper()
	id := n.Identity()
	return newClient(t, "passthrough:///"+addr, tlsCreds(n.ClientTLS(mesh.Identity{Mesh: id.Mesh, Role: mesh.RoleMgmt}, nil, identity.ProtoGRPC)))
}

// stranger is a client at addr without a certificate.
func stranger(t *testing.T, addr string, root [32]byte) *grpc.ClientConn {
	t.Helper()
	return newClient(t, "passthrough:///"+addr, tlsCreds(identity.PinnedTLS(root, identity.ProtoGRPC)))
}

func tlsCreds(c *tls.Config) credentials.TransportCredentials { return credentials.NewTLS(c) }

// call asks, and asks again while a server can do nothing: for longer than it
// waits itself, a busy machine may have no leader.
func call[Req, Resp any](t testing.TB, m admin.Method[Req, Resp], cc *grpc.ClientConn, req Req) Resp {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		resp, err := m.Call(t.Context(), cc, req)
		switch {
		case err == nil:
			return resp
		case mesh.Kind(err) != mesh.ErrUnavailable || time.Now().After(end):
			t.Fatalf("%s: %v", m.Name, err)
		}
	}
}

// unique makes labels that no other test has.
func unique(what string) string { return what + " " + mesh.NewLabel()[:6] }

// home makes a member and a cell.
func (r *running) home(t testing.TB) (member, cell string) {
	t.Helper()
	cc := r.local(t)
	m := call(t, admin.MemberAdd, cc, admin.MemberAddRequest{Name: unique("member")})
	c := call(t, admin.CellAdd, cc, admin.CellAddRequest{Name: unique("cell"), Suffix: mesh.NewLabel() + ".example.net"})
	return string(m.ID), string(c.ID)
}

// token makes a join token of the role.
func (r *running) token(t *testing.T, role mesh.Role, change ...func(*admin.TokenCreateRequest)) mesh.JoinToken {
	t.Helper()
	req := admin.TokenCreateRequest{Role: role}
	switch role {
	case mesh.RoleCore:
		req.Member, req.Cell = r.home(t)
	case mesh.RoleAdmin:
		req.Grant = mesh.AdminOperator
	case mesh.RoleEntry, mesh.RoleMgmt:
	}
	for _, c := range change {
		c(&req)
	}
	made := call(t, admin.TokenCreate, r.local(t), req)
	tok, err := mesh.ParseJoinToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func newFolder(t *testing.T) *identity.Folder {
	t.Helper()
	f, err := identity.OpenFolder(filepath.Join(t.TempDir(), "identity"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// join enrolls a new node with the token.
func join(t *testing.T, tok mesh.JoinToken, role mesh.Role, f *identity.Folder) (control.Enrolled, error) {
	t.Helper()
	return control.Enroll(t.Context(), control.EnrollConfig{Token: tok, Role: role, Folder: f, Version: "test", Wait: true, Log: slog.New(slog.DiscardHandler)})
}

// node is a new node of the role.
func (r *running) node(t *testing.T, role mesh.Role) *identity.Node {
	t.Helper()
	e, err := join(t, r.token(t, role), role, newFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	return e.Node
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
