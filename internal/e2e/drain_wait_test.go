package e2e

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

// drainMesh has one entry that drains so.
func drainMesh(t *testing.T, wait, limit time.Duration) *dev.Mesh {
	t.Helper()
	return newMesh(t, dev.Settings{Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if part == "entry-a" {
			config["drain"] = map[string]any{"wait": wait.String(), "limit": limit.String()}
		}
	}})
}

// notReady waits until the entry tells balancers so.
func notReady(t *testing.T, p *dev.Process) {
	t.Helper()
	eventually(t, patience, "it is not ready", func() error {
		if isReady(t.Context(), p.Health) == nil {
			return errors.New("it still is")
		}
		return nil
	})
}

// A balancer learns that an entry goes before the entry takes nobody new: whoever it
// still sends is served. The process itself is well all the time, or Kubernetes
// would kill it in the midst of draining (K-03).
func TestAnEntryIsNotReadyBeforeItTakesNobody(t *testing.T) {
	t.Parallel()
	const wait = 5 * time.Second
	m := drainMesh(t, wait, time.Minute)
	c, echo, entry := addDevice(t, m, "late"), echoServer(t), m.Entries[0]
	tun := c.mustConnect(t, m.EntryAddresses[0], echo)
	told := time.Now()
	signal(t, entry, syscall.SIGTERM)
	notReady(t, entry)
	served := 0
	for time.Since(told) < wait-time.Second {
		if err := c.tryEcho(t.Context(), m.EntryAddresses[0], echo); err != nil {
			t.Fatalf("a connection that a balancer sent %v after it was told: %v", time.Since(told), err)
		}
		served++
	}
	eventually(t, patience, "it takes nobody new", func() error {
		conn, err := dial(t.Context(), m.EntryAddresses[0])
		if err == nil {
			return errors.Join(errors.New("it does"), conn.Close())
		}
		return nil
	})
	if took := time.Since(told); took < wait {
		t.Errorf("it takes nobody new after %v", took)
	}
	if _, err := get(t.Context(), "http://"+entry.Health+"/healthz"); err != nil {
		t.Errorf("while it drains: %v", err)
	}
	if err := tun.echo(setupTime); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	_ = tun.Close() // the last
	ends(t, entry)
	t.Logf("it served %d after it was told to end, and ended after %v", served, time.Since(told).Round(time.Millisecond))
	if entry.ExitCode() != exitOK || served == 0 {
		t.Errorf("exit code %d, served %d", entry.ExitCode(), served)
	}
}

// A connection that never ends does not keep the entry from ending, and it says how
// many there were (K-02).
func TestADrainEndsAtItsLimitAndSaysWhatItCut(t *testing.T) {
	t.Parallel()
	const wait, limit = time.Second, 3 * time.Second
	m := drainMesh(t, wait, limit)
	c, echo := addDevice(t, m, "endless"), echoServer(t)
	endless := c.mustConnect(t, m.EntryAddresses[0], echo)
	quiet := c.mustConnect(t, m.EntryAddresses[0], echo)
	told := time.Now()
	signal(t, m.Entries[0], syscall.SIGTERM)
	for time.Since(told) < wait+limit {
		if err := endless.echo(setupTime); err != nil {
			if time.Since(told) < wait+limit {
				t.Errorf("cut after %v: %v", time.Since(told), err)
			}
			break
		}
	}
	if _, err := quiet.dies(setupTime); err != nil {
		t.Errorf("the quiet one: %v", err)
	}
	ends(t, m.Entries[0])
	open, cut := drained(t, m.Entries[0])
	if code := m.Entries[0].ExitCode(); code != exitOK || open != 2 || cut != 2 {
		t.Errorf("exit code %d, %d open, %d cut", code, open, cut)
	}
}

// An operator who cannot wait signals twice, also while the entry still accepts.
func TestASecondSignalEndsTheWaitToo(t *testing.T) {
	t.Parallel()
	m := drainMesh(t, time.Hour, time.Hour)
	signal(t, m.Entries[0], syscall.SIGTERM)
	notReady(t, m.Entries[0])
	signal(t, m.Entries[0], syscall.SIGTERM)
	ends(t, m.Entries[0])
	if code := m.Entries[0].ExitCode(); code != -1 { // by the signal
		t.Errorf("exit code %d", code)
	}
}
