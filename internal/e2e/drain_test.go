package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/dev"
)

// slowServer sends a download in pieces and begins the second when told to.
func slowServer(t *testing.T, goOn <-chan struct{}) string {
	t.Helper()
	return serve(t, "127.0.0.2:0", func(c *net.TCPConn) {
		all := noise(7, bulk/4)
		_, err := io.CopyN(c, all, 1<<20)
		<-goOn
		_, err2 := io.Copy(c, all)
		if err := errors.Join(err, err2); err != nil {
			t.Errorf("download: %v", err)
		}
	})
}

// finishes reads the rest of the download and compares.
func finishes(t *testing.T, tun *tunnel, begun []byte) {
	t.Helper()
	got, err := sum(io.MultiReader(bytes.NewReader(begun), tun))
	want, _ := sum(noise(7, bulk/4)) // cannot fail
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the download is damaged: %v", err)
	}
}

func TestStoppingLetsOpenConnectionsFinish(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 2, Entries: 2, Configure: func(part string, config map[string]any) {
		switch part {
		case "entry-a":
			config["drain"] = map[string]any{"limit": "20s"}
		case "core-a", "core-b":
			config["drain"] = "20s"
		}
	}})
	c, echo := addDevice(t, m, "patient"), echoServer(t)
	stops := func(t *testing.T, entry string, p *dev.Process, meanwhile func()) {
		goOn := make(chan struct{})
		tun := c.mustConnect(t, entry, slowServer(t, goOn))
		begun := make([]byte, 4096)
		if _, err := io.ReadFull(tun, begun); err != nil {
			t.Fatal(err)
		}
		signal(t, p, syscall.SIGTERM)
		meanwhile()
		if p.Exited() {
			t.Errorf("%s did not wait", p.Name)
		}
		close(goOn)
		finishes(t, tun, begun)
		_ = tun.Close() // the other side has ended
		begin := time.Now()
		ends(t, p)
		t.Logf("%s ended %v after its last connection, exit code %d", p.Name, time.Since(begin), p.ExitCode())
		if p.ExitCode() != exitOK {
			t.Errorf("%s: exit code %d", p.Name, p.ExitCode())
		}
	}
	t.Run("an entry takes nobody new meanwhile", func(t *testing.T) {
		stops(t, m.EntryAddresses[0], m.Entries[0], func() {
			took := eventually(t, patience, "new connections are refused", func() error {
				if c.tryEcho(t.Context(), m.EntryAddresses[0], echo) == nil {
					return errors.New("one was served")
				}
				return nil
			})
			t.Logf("refused after %v", took)
		})
	})
	t.Run("a core sends new connections elsewhere", func(t *testing.T) {
		core := coreOf(t, m, c)
		stops(t, m.EntryAddresses[1], core, func() {
			for range 5 {
				if err := c.tryEcho(t.Context(), m.EntryAddresses[1], echo); err != nil {
					t.Errorf("a new connection: %v", err)
				}
			}
		})
	})
	t.Run("the limit ends what does not finish", func(t *testing.T) {
		tun := c.mustConnect(t, m.EntryAddresses[1], echo)
		signal(t, m.Entries[1], syscall.SIGTERM) // its limit is 3 s
		took, err := tun.dies(setupTime)
		if err != nil || took < time.Second {
			t.Errorf("the idle connection ended after %v, %v", took, err)
		}
		ends(t, m.Entries[1])
		if code := m.Entries[1].ExitCode(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 1, Entries: 1, Configure: func(part string, config map[string]any) {
		if part == "entry-a" {
			config["drain"] = map[string]any{"limit": "1h"}
		}
	}})
	tun := addDevice(t, m, "hasty").mustConnect(t, m.EntryAddresses[0], echoServer(t))
	signal(t, m.Entries[0], syscall.SIGTERM)
	eventually(t, patience, "the entry drains", func() error {
		conn, err := dial(t.Context(), m.EntryAddresses[0])
		if err == nil {
			return errors.Join(errors.New("it still accepts"), conn.Close())
		}
		return nil
	})
	if err := tun.echo(setupTime); err != nil {
		t.Errorf("while draining: %v", err)
	}
	signal(t, m.Entries[0], syscall.SIGTERM)
	ends(t, m.Entries[0])
	if code := m.Entries[0].ExitCode(); code != -1 { // by the signal
		t.Errorf("exit code %d", code)
	}
}
