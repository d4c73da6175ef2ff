package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// shortDir is a folder whose unix sockets have short enough names, with no link
// in its path, removed at the end of the test.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// debug makes every part log all it ever logs.
func debug(_ string, config map[string]any) { config["log"] = map[string]any{"level": "debug"} }

// newMesh starts a mesh for this test alone.
func newMesh(t *testing.T, s dev.Settings) *dev.Mesh {
	t.Helper()
	s.Binary, s.Dir = meshctlBinary, shortDir(t)
	m, err := dev.Up(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.Tails())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// shared is the mesh of the tests that disturb nothing: two cores, two entries,
// of which the second believes PROXY headers from loopback. Wrong tokens do not
// make its server shy.
var shared struct {
	once sync.Once
	mesh *dev.Mesh
	err  error
}

func sharedMesh(t *testing.T) *dev.Mesh {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("/tmp", "mc-")
		if err != nil {
			shared.err = err
			return
		}
		configure := func(part string, config map[string]any) {
			switch part {
			case "mgmt":
				config["rates"] = map[string]any{"token-failures": 1000}
			case "entry-b":
				config["proxies"] = map[string]any{"trusted": []string{"127.0.0.0/8"}}
			}
		}
		shared.mesh, shared.err = dev.Up(context.Background(), dev.Settings{Binary: meshctlBinary, Dir: dir, Cores: 2, Entries: 2, Configure: configure})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.mesh.Tails())
		}
	})
	return shared.mesh
}

func closeShared() error {
	if shared.mesh == nil {
		return nil
	}
	return shared.mesh.Close()
}

// call asks the server of m, with a time limit.
func call[Req, Resp any](t *testing.T, m *dev.Mesh, method admin.Method[Req, Resp], req Req) Resp {
	t.Helper()
	resp, err := tryCall(t, m, method, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func tryCall[Req, Resp any](t *testing.T, m *dev.Mesh, method admin.Method[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return method.Call(ctx, m.Admin, req)
}

// restart starts a part that has ended and waits until it is ready.
func restart(t *testing.T, m *dev.Mesh, p *dev.Process) {
	t.Helper()
	if err := m.Start(p); err != nil {
		t.Fatal(err)
	}
	ready(t, p)
}

func ready(t *testing.T, p *dev.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

func kill(t *testing.T, p *dev.Process) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

func signal(t *testing.T, p *dev.Process, sig os.Signal) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// ends waits until the part has ended by itself.
func ends(t *testing.T, p *dev.Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.Name)
	}
}

// part finds a process by name.
func part(t *testing.T, m *dev.Mesh, name string) *dev.Process {
	t.Helper()
	for _, p := range append(append([]*dev.Process{m.Mgmt}, m.Cores...), m.Entries...) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no part %s", name)
	return nil
}

// coreReady says whether management calls the core ready.
func coreReady(t *testing.T, m *dev.Mesh, name string) error {
	c, err := tryCall(t, m, admin.CoreGet, admin.Ref{Ref: name})
	if err == nil && c.State != mesh.CoreReady {
		err = fmt.Errorf("core %s is %s: %s", name, c.State, c.Reason)
	}
	return err
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
