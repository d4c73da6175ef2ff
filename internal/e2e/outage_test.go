package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
)

// outage is a way for the only management server to be away, and to return.
type outage struct {
	name          string
	begin, finish func(t *testing.T, m *dev.Mesh)
}

var outages = []outage{
	{"killed",
		func(t *testing.T, m *dev.Mesh) { kill(t, m.Mgmt) },
		func(t *testing.T, m *dev.Mesh) { restart(t, m, m.Mgmt) }},
	{"frozen",
		func(t *testing.T, m *dev.Mesh) { signal(t, m.Mgmt, syscall.SIGSTOP) },
		func(t *testing.T, m *dev.Mesh) { signal(t, m.Mgmt, syscall.SIGCONT) }},
}

func TestClientsDoNotNoticeThatManagementIsAway(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, dev.Settings{Cores: 2, Entries: 2})
			o.test(t, m)
		})
	}
}

func (o outage) test(t *testing.T, m *dev.Mesh) {
	seen, unseen, echo := addDevice(t, m, "seen"), addDevice(t, m, "unseen"), echoServer(t)
	a, b := m.EntryAddresses[0], m.EntryAddresses[1]
	open := seen.mustConnect(t, a, echo)
	serves := func(c client, entry string) error { return c.tryEcho(t.Context(), entry, echo) }

	o.begin(t, m)
	t.Cleanup(func() { signal(t, m.Mgmt, syscall.SIGCONT) }) // or it could not be stopped

	var slowest time.Duration
	for range 5 {
		begin := time.Now()
		if err := serves(seen, a); err != nil {
			t.Errorf("a new connection for a name that was seen: %v", err)
		}
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("a new connection took up to %v", slowest)
	if err := open.echo(setupTime); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	refusedWithin(t, "an unseen name", func() error { return serves(unseen, a) })
	refusedWithin(t, "a name that the other entry has not seen", func() error { return serves(seen, b) })
	for _, args := range [][]string{{"admin", "member", "add", "Late"}, {"admin", "status"}} {
		meshctl(t, append(args, "--socket", m.SocketPath(), "--timeout", "1s")...).want(t, exitUnavailable, "error: ", "hint: ")
	}

	// A core that starts meanwhile serves from what it has stored.
	for _, core := range m.Cores {
		kill(t, core)
	}
	if err := m.Start(m.Cores[0]); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, patience, "the restarted core serves", func() error { return serves(seen, a) })
	t.Logf("served by a core restarted meanwhile after %v", took)

	// An entry that starts meanwhile knows nobody, and waits.
	kill(t, m.Entries[1])
	if err := m.Start(m.Entries[1]); err != nil {
		t.Fatal(err)
	}
	refusedWithin(t, "an entry restarted meanwhile", func() error { return serves(seen, b) })

	o.finish(t, m)
	took = eventually(t, patience, "the other entry serves", func() error { return serves(seen, b) })
	t.Logf("served by an entry restarted meanwhile %v after the return", took)
	eventually(t, patience, "an unseen name is served", func() error { return serves(unseen, a) })
	eventually(t, patience, "the core is ready", func() error {
		m.Admin.ResetConnectBackoff()
		return coreReady(t, m, m.Cores[0].Name)
	})
	for _, p := range []*dev.Process{m.Entries[0], m.Entries[1], m.Cores[0]} {
		if p.Exited() {
			t.Errorf("%s has ended", p.Name)
		}
	}
}

// refusedWithin wants an error, and not after a long wait.
func refusedWithin(t *testing.T, what string, try func() error) {
	t.Helper()
	begin := time.Now()
	if err := try(); err == nil {
		t.Errorf("%s was served", what)
	}
	if took := time.Since(begin); took >= setupTime {
		t.Errorf("%s was refused after %v only", what, took)
	}
}

// coreOf is the process of the core that serves the client first.
func coreOf(t *testing.T, m *dev.Mesh, c client) *dev.Process {
	t.Helper()
	d := call(t, m, admin.DeviceGet, admin.Ref{Ref: c.id})
	if len(d.Via) == 0 {
		t.Fatalf("device %s waits: %s", d.Name, d.Waiting)
	}
	return part(t, m, call(t, m, admin.CoreGet, admin.Ref{Ref: d.Via[0]}).Name)
}

func TestCoreKilled(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 2, Entries: 1})
	c, echo := addDevice(t, m, "mobile"), echoServer(t)
	entry := m.EntryAddresses[0]
	open := c.mustConnect(t, entry, echo)
	first := coreOf(t, m, c)

	kill(t, first)
	took, err := open.dies(setupTime)
	t.Logf("its connection dropped after %v", took)
	if err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := c.tryEcho(t.Context(), entry, echo); err != nil {
		t.Errorf("reconnecting: %v", err)
	}
	t.Logf("reconnected through the other core in %v", time.Since(begin))

	eventually(t, patience, "management notices", func() error {
		if s := call(t, m, admin.CoreGet, admin.Ref{Ref: first.Name}).Status; s != nil && s.Connected {
			return fmt.Errorf("%s is called connected", first.Name)
		}
		return nil
	})
	for _, core := range m.Cores {
		kill(t, core)
	}
	refusedWithin(t, "a device with no core left", func() error { return c.tryEcho(t.Context(), entry, echo) })
	restart(t, m, first)
	took = eventually(t, patience, "served again", func() error { return c.tryEcho(t.Context(), entry, echo) })
	t.Logf("served %v after a core was ready again", took)
}

func TestCoreMoves(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if part == "core-a" { // another port at each start; management sees the address by itself
			config["listen"] = "127.0.0.1:0"
			delete(config, "advertise")
		}
	}})
	c, echo := addDevice(t, m, "follower"), echoServer(t)
	was := call(t, m, admin.CoreGet, admin.Ref{Ref: "core-a"}).Addresses
	if err := c.tryEcho(t.Context(), m.EntryAddresses[0], echo); err != nil {
		t.Fatal(err)
	}
	kill(t, m.Cores[0])
	begin := time.Now()
	if err := m.Start(m.Cores[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "served at the new address", func() error { return c.tryEcho(t.Context(), m.EntryAddresses[0], echo) })
	t.Logf("served at the new address %v after the start", time.Since(begin))
	if is := call(t, m, admin.CoreGet, admin.Ref{Ref: "core-a"}).Addresses; fmt.Sprint(is) == fmt.Sprint(was) {
		t.Errorf("the core is still said to be at %v", is)
	}
}
