package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const shortLife = 10 * time.Second // a node on a busy machine still comes to renew in time

// outlived is a mesh of three servers that were all away for one and a half of
// the life of its nodes' certificates.
func outlived(t *testing.T, grace string) (m *dev.Mesh, c client, echo string) {
	t.Helper()
	m = newMesh(t, dev.Settings{Servers: 3, Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if founding, ok := config["founding"].(map[string]any); ok {
			founding["node-cert-life"], founding["renew-grace"] = shortLife.String(), grace
		}
	}})
	c, echo = addDevice(t, m, "patient"), echoServer(t)
	if err := c.tryEcho(t.Context(), m.EntryAddresses[0], echo); err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Servers {
		kill(t, s)
	}
	begin := time.Now()
	eventually(t, patience, "one and a half lives pass, and the nodes say so", func() error {
		for _, p := range []*dev.Process{m.Cores[0], m.Entries[0]} {
			if n := len(complaints(t, p)); n == 0 {
				return fmt.Errorf("%s says nothing", p.Name)
			}
		}
		if left := shortLife*3/2 - time.Since(begin); left > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	refusedWithin(t, "a client, by nodes without a certificate,", func() error { return c.tryEcho(t.Context(), m.EntryAddresses[0], echo) })
	return m, c, echo
}

func startAll(t *testing.T, m *dev.Mesh) {
	t.Helper()
	for _, s := range m.Servers {
		if err := m.Start(s); err != nil {
			t.Fatal(err)
		}
	}
}

// complaints are the lines in which a node says that its certificate has ended.
func complaints(t *testing.T, p *dev.Process) []string {
	t.Helper()
	b, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, "certificate not renewed") && strings.Contains(line, "expired=true") {
			out = append(out, line)
		}
	}
	return out
}

// C-09: an outage longer than the life of the certificates strands no node where
// the operator allows a grace: it renews by itself and serves.
func TestNodesOutliveTheirCertificatesWithAGrace(t *testing.T) {
	t.Parallel()
	m, c, echo := outlived(t, "5m")
	kill(t, m.Entries[0]) // a restart, with a token that is spent, changes nothing
	if err := m.Start(m.Entries[0]); err != nil {
		t.Fatal(err)
	}
	startAll(t, m)
	took := eventually(t, patience, "a client is served", func() error { return c.tryEcho(t.Context(), m.EntryAddresses[0], echo) })
	t.Logf("served %v after the servers were started", took)
	for _, p := range []*dev.Process{m.Cores[0], m.Entries[0]} {
		if n := len(complaints(t, p)); n > 3 { // none there, again after the restart, and by one that was starting
			t.Errorf("%s said %d times that its certificate ended:\n%s", p.Name, n, strings.Join(complaints(t, p), ""))
		}
	}
}

// C-09: without a grace a node says what is wrong in one line, asks no more than
// once a minute, and comes back with a new token.
func TestNodesWhoseCertificatesEndedComeBackWithAToken(t *testing.T) {
	t.Parallel()
	m, c, echo := outlived(t, "0s")
	startAll(t, m)
	nodes := []*dev.Process{m.Cores[0], m.Entries[0]}
	for _, s := range m.Servers {
		ready(t, s)
	}
	for _, p := range nodes {
		eventually(t, patience, p.Name+" is refused by servers that are there, and says so", func() error {
			for _, line := range complaints(t, p) {
				if !strings.Contains(line, "connection refused") && strings.Contains(line, "hint=") {
					return nil
				}
			}
			return fmt.Errorf("it says %q", complaints(t, p))
		})
	}
	said, asked := map[string]int{}, refusals(t, m)
	for _, p := range nodes {
		said[p.Name] = len(complaints(t, p))
	}
	const quiet = 8 * time.Second
	<-time.After(quiet)
	if n := refusals(t, m) - asked; n > 0 {
		t.Errorf("servers refused %v connections within %v", n, quiet)
	}
	for _, p := range nodes {
		if n := len(complaints(t, p)) - said[p.Name]; n > 0 {
			t.Errorf("%s said it %d times more within %v", p.Name, n, quiet)
		}
		kill(t, p)
	}

	token := func(p *dev.Process, req admin.TokenCreateRequest) string {
		t.Helper()
		file := filepath.Join(p.Dir, "token")
		if err := os.WriteFile(file, []byte(call(t, m, admin.TokenCreate, req).Token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	m.Admin.ResetConnectBackoff()
	core, entry := nodes[0], nodes[1]
	file := token(core, admin.TokenCreateRequest{Role: mesh.RoleCore, Member: dev.MemberName, Cell: dev.CellName})
	meshctl(t, "core", "join", "--config", filepath.Join(core.Dir, "config.yaml"), "--token-file", file, "--enroll-only").want(t, exitOK, "joined as")
	token(entry, admin.TokenCreateRequest{Role: mesh.RoleEntry})
	restart(t, m, core)
	restart(t, m, entry)
	took := eventually(t, patience, "a client is served", func() error { return c.tryEcho(t.Context(), m.EntryAddresses[0], echo) })
	t.Logf("served %v after the restart", took)
}

// refusals is how many connections the servers have refused.
func refusals(t *testing.T, m *dev.Mesh) float64 {
	t.Helper()
	sum := 0.0
	for _, s := range m.Servers {
		text, err := get(t.Context(), "http://"+s.Health+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "meshctl_mgmt_connections_refused_total") {
				var n float64
				if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n); err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return sum
}
