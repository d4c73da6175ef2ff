//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/lab"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Names of what the mesh is made with.
const (
	memberName = "Alice"
	cellName   = "amsterdam"
	cellSuffix = "a.example.net"
)

// Mesh is three management servers and a core beside the cluster, and a client
// and an origin; its entries are pods.
type Mesh struct {
	*Kube
	mgmt           []*host
	core           *host
	client, origin *host
	admins         map[*host]*grpc.ClientConn
	devices        []*device
	echo           *lab.Origin
}

// theMesh returns cluster and mesh. The first test makes them.
func theMesh(t *testing.T) *Mesh {
	t.Helper()
	k := theKube(t)
	shared.onceMesh.Do(func() { shared.makeMesh(t, k) })
	if !shared.meshWell {
		t.Fatal("the mesh was not made")
	}
	return shared.mesh
}

func (s *sharedParts) makeMesh(t *testing.T, k *Kube) {
	t.Helper()
	binary := filepath.Join(k.Dir, "meshctl")
	if err := lab.Build(t.Context(), binary, "github.com/meshctl/meshctl"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.mesh = &Mesh{Kube: k, admins: map[*host]*grpc.ClientConn{}}
	for _, step := range []struct {
		what string
		run  func(testing.TB, string)
	}{
		{"network made", s.mesh.makeNetwork},
		{"mesh founded on three servers", s.mesh.found},
		{"core joined", s.mesh.joinCore},
		{"devices added", s.mesh.addDevices},
	} {
		step.run(t, binary)
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), step.what)
	}
	s.meshWell = true
}

func (m *Mesh) makeNetwork(t testing.TB, binary string) {
	t.Helper()
	for i, letter := range "abc" {
		m.mgmt = append(m.mgmt, m.newHost(t, "mgmt-"+string(letter), byte(11+i), binary))
	}
	m.core = m.newHost(t, "core", 31, binary)
	m.client, m.origin = m.newHost(t, "client", 41, binary), m.newHost(t, "origin", 51, binary)
	ln, err := m.origin.Listen(m.origin.at(7))
	if err != nil {
		t.Fatal(err)
	}
	m.echo = lab.ServeEcho(ln)
}

// found founds the mesh on all servers at once.
func (m *Mesh) found(t testing.TB, _ string) {
	t.Helper()
	secret, err := m.mgmt[0].run(t.Context(), "mgmt", "bootstrap-secret")
	if err != nil {
		t.Fatal(err)
	}
	secretFile := m.secretFile(t, "bootstrap.secret", secret)
	passphrase := m.secretFile(t, "passphrase", mesh.NewSecret(24).Reveal())
	var peers []string
	for _, h := range m.mgmt {
		peers = append(peers, h.addr.String())
	}
	for _, h := range m.mgmt {
		socket := h.file("s")
		h.args, h.health = []string{"mgmt", "serve"}, "127.0.0.1:9601"
		h.config = map[string]any{
			"dir": h.file("data"), "name": h.name, "addresses": []string{h.at(8443)}, "socket": socket,
			"bootstrap-expect": len(peers), "peers": peers, "bootstrap-secret-file": secretFile, "passphrase-file": passphrase,
			"etcd":     map[string]any{"peer-listen": h.at(2380)},
			"founding": map[string]any{"allowed-addresses": []string{subnet.String()}},
		}
		if m.admins[h], err = admin.DialSocket(socket); err != nil {
			t.Fatal(err)
		}
		h.begin(t)
	}
	m.wait(t, "the mesh is founded", func() error {
		servers, err := call(t.Context(), m, admin.MgmtList, admin.Page{})
		if err != nil {
			return err
		}
		for _, s := range servers.Items {
			if s.Leader && len(servers.Items) == len(m.mgmt) {
				return nil
			}
		}
		return fmt.Errorf("%d servers", len(servers.Items))
	})
}

func (m *Mesh) secretFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(m.Dir, name)
	if err := os.WriteFile(file, []byte(strings.TrimSpace(text)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (m *Mesh) joinCore(t testing.TB, _ string) {
	t.Helper()
	must(t, m, admin.CellAdd, admin.CellAddRequest{Name: cellName, Suffix: cellSuffix})
	must(t, m, admin.MemberAdd, admin.MemberAddRequest{Name: memberName})
	token := must(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: m.core.name, Member: memberName, Cell: cellName}).Token
	c := m.core
	c.args, c.health = []string{"core", "run"}, "127.0.0.1:9603"
	c.config = map[string]any{"dir": c.file("data"), "drain": "5s",
		"egress": map[string]any{"kind": "proxy", "allow": []string{m.origin.addr.String() + "/32"}}}
	if err := c.writeConfig(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.run(ctx, "core", "join", "--config", c.file("config.yaml"), "--token-file", m.secretFile(t, "token", token), "--enroll-only"); err != nil {
		t.Fatal(err)
	}
	c.begin(t)
	m.wait(t, "the core is ready", func() error {
		core, err := call(t.Context(), m, admin.CoreGet, admin.Ref{Ref: c.name})
		if err == nil && core.State != mesh.CoreReady {
			err = fmt.Errorf("it is %s", core.State)
		}
		return err
	})
}

func (m *Mesh) addDevices(t testing.TB, _ string) {
	t.Helper()
	for i := range 8 {
		m.devices = append(m.devices, m.newDevice(t, fmt.Sprintf("device-%d", i+1)))
	}
}

// leader is the server that leads, and follower one that does not.
func (m *Mesh) leader(t testing.TB) (leader *host) {
	t.Helper()
	m.wait(t, "a leader", func() error {
		servers, err := call(t.Context(), m, admin.MgmtList, admin.Page{})
		if err != nil {
			return err
		}
		for _, s := range servers.Items {
			for _, h := range m.mgmt {
				if s.Leader && s.Name == h.name && h.role.Running() {
					leader = h
					return nil
				}
			}
		}
		return errors.New("none leads")
	})
	return leader
}

// wait is WaitFor with the logs of the mesh.
func (m *Mesh) wait(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := retry(context.WithoutCancel(t.Context()), patience, what, try); err != nil {
		t.Fatalf("%v\n%s", err, m.meshTails())
	}
	return time.Since(begin)
}

func (m *Mesh) meshTails() string {
	var b strings.Builder
	for _, h := range append(append([]*host{}, m.mgmt...), m.core) {
		if h.role != nil {
			b.WriteString(h.role.Tail(6) + "\n")
		}
	}
	return b.String() + "logs: " + filepath.Join(m.Dir, "*", "*.log")
}

// call asks the first management server that answers.
func call[Req, Resp any](ctx context.Context, m *Mesh, method admin.Method[Req, Resp], req Req) (resp Resp, err error) {
	err = mesh.ErrUnavailable
	for _, h := range m.mgmt {
		if !h.role.Running() {
			continue
		}
		if resp, err = callAt(ctx, m, h, method, req); err == nil {
			return resp, nil
		}
	}
	return resp, err
}

// callAt asks one management server, for at most 30 seconds.
func callAt[Req, Resp any](ctx context.Context, m *Mesh, h *host, method admin.Method[Req, Resp], req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cc := m.admins[h]
	cc.ResetConnectBackoff()
	return method.Call(ctx, cc, req)
}

// must is call with an error that ends the test.
func must[Req, Resp any](t testing.TB, m *Mesh, method admin.Method[Req, Resp], req Req) Resp {
	t.Helper()
	resp, err := call(t.Context(), m, method, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// close ends the mesh; its hosts are removed with the cluster's network.
func (m *Mesh) close() error {
	var errs []error
	for _, cc := range m.admins {
		errs = append(errs, cc.Close())
	}
	if m.echo != nil {
		errs = append(errs, m.echo.Close())
	}
	for _, h := range append([]*host{m.core}, m.mgmt...) {
		if h != nil {
			errs = append(errs, h.role.Kill())
		}
	}
	return errors.Join(errs...)
}
