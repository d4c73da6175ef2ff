package mgmt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// formPatience is how long three servers may take for a step of a founding, of
// which each asks the others and starts an etcd.
const formPatience = 3 * time.Minute

// trio are the configurations of three servers on loopback.
type trio struct {
	t      *testing.T
	confs  []Config
	secret mesh.Secret
	servs  map[string]*member
}

// member is one run of one of them.
type member struct {
	*Server
	logs *logBuffer
	end  context.CancelFunc
	up   chan Addresses
	done chan struct{}
	err  error // once done is closed
}

func newTrio(t *testing.T, names ...string) *trio {
	t.Helper()
	x := &trio{t: t, secret: mesh.NewSecret(MinBootstrapSecret), servs: map[string]*member{}}
	var peers []string
	for range names {
		peers = append(peers, freeport.Addr(t))
	}
	for i, name := range names {
		c := testConfig(filepath.Join(t.TempDir(), "data"))
		c.Name, c.BootstrapExpect, c.Peers = name, 3, peers
		c.GossipListen, c.MeshListen, c.Etcd.PeerListen = peers[i], freeport.Addr(t), freeport.Addr(t)
		c.SocketPath = filepath.Join(socketDir(t), fmt.Sprintf("s%d", i))
		// With less, a busy machine has no leader for minutes: votes come too late.
		c.Etcd.Heartbeat, c.Etcd.Election = 100*time.Millisecond, 3*time.Second
		x.confs = append(x.confs, c)
	}
	t.Cleanup(func() {
		for _, m := range x.servs {
			m.end()
		}
		for _, m := range x.servs {
			<-m.done
		}
		if t.Failed() {
			for name, m := range x.servs {
				t.Logf("log of %s:\n%s", name, tail(m.logs.String()))
			}
		}
	})
	return x
}

func tail(s string) string {
	var keep []string
	for line := range strings.Lines(s) {
		if !strings.Contains(line, "part=etcd") && !strings.Contains(line, "memberlist reported") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep[max(0, len(keep)-40):], "")
}

// socketDir is short enough for a socket's path.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start runs server i. change, when given, alters it first.
func (x *trio) start(i int, change ...func(*Server)) *member {
	x.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logs := new(logBuffer)
	m := &member{logs: logs, end: cancel, up: make(chan Addresses, 1), done: make(chan struct{})}
	m.Server = &Server{
		Config: x.confs[i], Version: "test", Passphrase: givePassphrase, Log: logs.logger(),
		BootstrapSecret: func(context.Context) (mesh.Secret, error) { return x.secret, nil },
		Up:              func(a Addresses) { m.up <- a },
	}
	for _, c := range change {
		c(m.Server)
	}
	go func() {
		defer close(m.done)
		m.run(ctx)
	}()
	x.servs[fmt.Sprint(x.confs[i].Name, i)] = m
	return m
}

// run is what a service manager does: it starts the server anew when the others
// did not answer in time for it to serve.
func (m *member) run(ctx context.Context) {
	served := false
	for again := true; again; {
		m.err = m.Run(ctx, func() { served = true })
		again = ctx.Err() == nil && !served && mesh.Kind(m.err) == mesh.ErrUnavailable
	}
}

// stop ends the run and waits for it.
func (m *member) stop(t *testing.T) {
	t.Helper()
	m.end()
	select {
	case <-m.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not stop", m.Config.Name)
	}
	if m.err != nil {
		t.Errorf("%s: %v", m.Config.Name, m.err)
	}
}

// serves waits until the server serves.
func (m *member) serves(t *testing.T) *member {
	t.Helper()
	select {
	case a := <-m.up:
		m.up <- a
	case <-m.done:
		t.Fatalf("%s ended before it served: %v", m.Config.Name, m.err)
	case <-time.After(formPatience):
		t.Fatalf("%s does not serve within %v", m.Config.Name, formPatience)
	}
	return m
}

// says waits until the log has the words.
func (m *member) says(t *testing.T, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s says %q", m.Config.Name, words), func() bool { return strings.Contains(m.logs.String(), words) })
}

func (m *member) status(t *testing.T) admin.ServerStatus {
	t.Helper()
	cc, err := admin.DialSocket(m.Config.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	return call(t, admin.ServerStatusGet, cc, admin.None{})
}

// whole waits until every server says that three are members and there.
func (x *trio) whole(ms ...*member) mesh.ID {
	x.t.Helper()
	var id mesh.ID
	for _, m := range ms {
		m.serves(x.t)
	}
	for _, m := range ms {
		eventually(x.t, m.Config.Name+" sees a whole mesh", func() bool { return m.status(x.t).HighlyAvailable })
		cc, err := admin.DialSocket(m.Config.Socket())
		if err != nil {
			x.t.Fatal(err)
		}
		var st admin.Status
		eventually(x.t, m.Config.Name+" has a leader", func() bool {
			st, err = admin.StatusGet.Call(x.t.Context(), cc, admin.None{})
			return err == nil
		})
		var cfg mesh.Config
		eventually(x.t, "nodes learn of all from "+m.Config.Name, func() bool {
			cfg, err = admin.ConfigGet.Call(x.t.Context(), cc, admin.None{})
			return err == nil && len(cfg.MgmtAddresses) == len(ms)
		})
		cc.Close()
		if id != "" && st.Mesh != id {
			x.t.Fatalf("%s is in %s, another server in %s", m.Config.Name, st.Mesh, id)
		}
		id = st.Mesh
		eventually(x.t, m.Config.Name+" forgets the founding", func() bool {
			_, err := os.Stat(filepath.Join(m.Config.Dir, fileFormation))
			return os.IsNotExist(err)
		})
	}
	return id
}
