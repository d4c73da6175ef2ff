//go:build faults

package faults

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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
	cellName   = "amsterdam"
	cellSuffix = "a.example.net"
	memberName = "Alice"
)

// form makes the network and the mesh in dir.
func form(t testing.TB, l *Lab) {
	t.Helper()
	begin := time.Now()
	step := func(what string, run func(testing.TB)) {
		t.Helper()
		run(t)
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), what)
	}
	step("network made", l.makeNetwork)
	step("mesh founded on three servers", l.found)
	step("cores joined", l.joinCores)
	step("entries joined", l.joinEntries)
	step("devices added, all is well", l.addClients)
}

func (l *Lab) makeNetwork(t testing.TB) {
	t.Helper()
	if err := makeInternet(); err != nil {
		t.Fatal(err)
	}
	group := func(first byte, role string, letters string) (out []*Host) {
		for i, letter := range letters {
			out = append(out, l.newHost(t, role+"-"+string(letter), first+byte(i)))
		}
		return out
	}
	l.Mgmt, l.Entries, l.Cores = group(11, "mgmt", "abc"), group(21, "entry", "ab"), group(31, "core", "abc")
	l.Client, l.Origin, l.Stranger = l.newHost(t, "client", 41), l.newHost(t, "origin", 51), l.newHost(t, "stranger", 61)
	l.Neighbour = l.newHost(t, "neighbour", 62)
	for _, h := range append(slices.Clone(l.Mgmt), l.Neighbour) {
		h.Private = withLast(privateNet, h.Addr.As4()[3])
		if err := attachPrivate(h.ns, h.Name, h.Private); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := l.Origin.ns.Listen(l.Origin.At(7))
	if err != nil {
		t.Fatal(err)
	}
	l.echo = lab.ServeEcho(ln)
}

func (l *Lab) newHost(t testing.TB, name string, last byte) *Host {
	t.Helper()
	b := subnet.Addr().As4()
	b[3] = last
	h := &Host{Name: name, Addr: netip.AddrFrom4(b), Dir: filepath.Join(l.Dir, name), binary: l.binary}
	var err error
	if h.ns, err = attach(name, h.Addr); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// found founds the mesh on all servers at once, as docs/runbook.md says. The
// data of the last server lies on a small disk of its own, which can be filled.
func (l *Lab) found(t testing.TB) {
	t.Helper()
	secret, err := l.Mgmt[0].Run(l.Mgmt[0].Command(t.Context(), "mgmt", "bootstrap-secret"))
	if err != nil {
		t.Fatal(secret, err)
	}
	secretFile := l.secretFile(t, "bootstrap.secret", secret)
	l.Passphrase = l.secretFile(t, "passphrase", mesh.NewSecret(24).Reveal())
	if err := mountSmallDisk(l.Mgmt[2].Data()); err != nil {
		t.Fatal(err)
	}
	var peers, clientSide []string
	for _, h := range l.Mgmt {
		peers = append(peers, h.Private.String())
	}
	for i := range 2 {
		clientSide = append(clientSide, netip.AddrPortFrom(subnetAddr(21+byte(i)), 443).String())
	}
	subscription := l.subscriptionFiles(t)
	l.admins = map[*Host]*grpc.ClientConn{}
	for _, h := range l.Mgmt {
		socket := filepath.Join(h.Dir, "s")
		h.args, h.health = []string{"mgmt", "serve"}, "127.0.0.1:9601"
		h.Config = map[string]any{
			"dir": h.Data(), "name": h.Name, "addresses": []string{h.At(8443)}, "socket": socket,
			"bootstrap-expect": len(peers), "peers": peers, "bootstrap-secret-file": secretFile,
			"passphrase-file": l.Passphrase,
			"etcd":            map[string]any{"peer-listen": h.Inside(2380)},
			"subscription":    subscription,
			"founding":        map[string]any{"allowed-addresses": []string{subnet.String()}, "entry-addresses": clientSide},
		}
		if l.admins[h], err = admin.DialSocket(socket); err != nil {
			t.Fatal(err)
		}
		h.Start(t)
	}
	l.WaitFor(t, patience, "the mesh is founded", func() error { return l.serversWell(t.Context()) })
}

func subnetAddr(last byte) netip.Addr { return withLast(subnet, last) }

func withLast(p netip.Prefix, last byte) netip.Addr {
	b := p.Addr().As4()
	b[3] = last
	return netip.AddrFrom4(b)
}

func (l *Lab) secretFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(l.Dir, name)
	if err := os.WriteFile(file, []byte(strings.TrimSpace(text)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Token makes a join token and returns the file that holds it.
func (l *Lab) Token(t testing.TB, req admin.TokenCreateRequest) string {
	t.Helper()
	return l.secretFile(t, "token-"+req.Name, must(t, l, admin.TokenCreate, req).Token)
}

func (l *Lab) joinCores(t testing.TB) {
	t.Helper()
	must(t, l, admin.CellAdd, admin.CellAddRequest{Name: cellName, Suffix: cellSuffix})
	must(t, l, admin.MemberAdd, admin.MemberAddRequest{Name: memberName})
	for _, h := range l.Cores {
		h.Config = map[string]any{
			"dir": h.Data(), "drain": "5s",
			"egress": map[string]any{"kind": "proxy", "allow": []string{l.Origin.Addr.String() + "/32"}},
		}
		l.JoinCore(t, h, memberName, cellName)
	}
	l.WaitFor(t, patience, "the cores are ready", func() error {
		if err := l.nodesWell(t.Context()); err != nil && strings.Contains(err.Error(), "cores") {
			return err
		}
		return nil
	})
}

// JoinCore joins a core that has no identity, as a core of the member, and
// starts it.
func (l *Lab) JoinCore(t testing.TB, h *Host, member, cell string) {
	t.Helper()
	token := l.Token(t, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: h.Name, Member: member, Cell: cell})
	h.health = "127.0.0.1:9603"
	h.args = []string{"core", "run"}
	if err := h.writeConfig(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := h.Run(h.Command(ctx, "core", "join", "--config", h.configFile(), "--token-file", token, "--enroll-only")); err != nil {
		t.Fatalf("%s: %v\n%s", h.Name, err, out)
	}
	h.Start(t)
}

func (l *Lab) joinEntries(t testing.TB) {
	t.Helper()
	for _, h := range l.Entries {
		h.Config = map[string]any{"dir": h.Data(), "drain": map[string]any{"wait": "2s", "limit": "5m"}}
		l.JoinEntry(t, h)
	}
	l.WaitFor(t, patience, "the entries are there", func() error { return l.nodesWell(t.Context()) })
}

// JoinEntry starts an entry that has no identity with a token.
func (l *Lab) JoinEntry(t testing.TB, h *Host) {
	t.Helper()
	h.Config["token-file"] = l.Token(t, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: h.Name})
	h.args, h.health = []string{"entry", "run"}, "127.0.0.1:9602"
	h.Start(t)
}

func (l *Lab) addClients(t testing.TB) {
	t.Helper()
	for range 12 {
		l.clients = append(l.clients, l.NewClient(t, memberName))
	}
	l.WaitUntilWell(t)
}

// close ends everything and removes it.
func (l *Lab) close() error {
	var errs []string
	note := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	for _, cc := range l.admins {
		note(cc.Close())
	}
	if l.echo != nil {
		note(l.echo.Close())
	}
	for _, h := range slices.Concat(l.Entries, l.Cores, l.Mgmt) {
		note(h.role.Kill())
	}
	note(lab.Sweep(prefix))
	if len(l.Mgmt) == 3 {
		note(unmountSmallDisk(l.Mgmt[2].Data()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("the lab was not removed: %s", strings.Join(errs, "; "))
	}
	return nil
}
