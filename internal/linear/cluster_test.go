package linear

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/embedded"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

// member is one etcd process.
type member struct {
	spec  spec
	log   string // file with what it wrote to standard error
	leads atomic.Bool
	pid   atomic.Int64 // 0: not running

	cmd   *exec.Cmd
	in    *os.File // its end ends the process
	ready chan struct{}
	done  chan struct{} // closed when the process and its reader have ended
}

// cluster is three members and the wires between them.
type cluster struct {
	t       *testing.T
	members [3]*member
	wires   *wires
	tls     *tls.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	ca := storetest.NewCA(t)
	c := &cluster{t: t}
	var listen [3]string
	var list []string
	for i := range listen {
		listen[i] = freeport.Addr(t)
		list = append(list, fmt.Sprintf("m%d=https://%s", i, listen[i]))
	}
	for i := range c.members {
		m := ca.Material(t)
		dir := t.TempDir()
		c.members[i] = &member{log: filepath.Join(dir, "log"), spec: spec{
			Dir: dir, Name: fmt.Sprint("m", i), Listen: listen[i], Client: freeport.Addr(t),
			Cluster: strings.Join(list, ","), CA: m.CA, Certs: [3][2]string{text(m.Server), text(m.Peer), text(m.Client)},
		}}
		if i == 0 {
			c.tls = clientTLS(t, m)
		}
	}
	c.wires = newWires(t, listen, c.owner)
	for i, m := range c.members {
		m.spec.Proxy = c.wires.proxies[i]
	}
	t.Cleanup(func() {
		for i := range c.members {
			c.kill(i)
		}
	})
	c.startAll()
	// What they have dialled so far went past the wires.
	for _, m := range c.members {
		m.in.Close()
	}
	for i, m := range c.members {
		<-m.done
		c.kill(i) // it has ended
	}
	c.startAll()
	return c
}

func (c *cluster) startAll() {
	c.t.Helper()
	for i := range c.members {
		c.start(i)
	}
	for i := range c.members {
		c.await(i)
	}
}

func text(p embedded.Pair) [2]string { return [2]string{string(p.Cert), p.Key.Reveal()} }

func clientTLS(t *testing.T, m embedded.Material) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(m.Client.Cert, []byte(m.Client.Key.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(m.CA)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// owner is the member at the other end of c.
func (c *cluster) owner(conn net.Conn) (int, bool) {
	inode := inodeOf(conn)
	if inode == "" {
		return 0, false
	}
	for i, m := range c.members {
		if pid := m.pid.Load(); pid != 0 && holds(int(pid), inode) {
			return i, true
		}
	}
	return 0, false
}

// start starts a member, which is not ready yet.
func (c *cluster) start(i int) {
	c.t.Helper()
	if err := c.members[i].start(); err != nil {
		c.t.Fatal(err)
	}
}

func (m *member) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	errs, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer errs.Close()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	defer inR.Close()
	defer outW.Close()
	m.cmd = exec.Command(self)
	m.cmd.Env = append(os.Environ(), memberEnv+"=1")
	m.cmd.Stdin, m.cmd.Stdout, m.cmd.Stderr = inR, outW, errs
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.pid.Store(int64(m.cmd.Process.Pid))
	m.in, m.ready, m.done = inW, make(chan struct{}), make(chan struct{})
	go m.listen(outR)
	return json.NewEncoder(inW).Encode(m.spec)
}

// listen follows what the process says until it ends.
func (m *member) listen(out *os.File) {
	defer close(m.done)
	defer out.Close()
	once := sync.OnceFunc(func() { close(m.ready) })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch lines.Text() {
		case "ready":
			once()
		default:
			m.leads.Store(lines.Text() == "leads")
		}
	}
	m.leads.Store(false)
	_ = m.cmd.Wait() // killed
}

func (c *cluster) await(i int) {
	c.t.Helper()
	m := c.members[i]
	select {
	case <-m.ready:
		return
	case <-m.done:
	case <-time.After(patience):
	}
	said, err := os.ReadFile(m.log)
	c.t.Fatalf("member %d did not become ready: %s %v", i, said, err)
}

// kill ends a member with SIGKILL, and waits for its end.
func (c *cluster) kill(i int) {
	m := c.members[i]
	if m.pid.Swap(0) == 0 {
		return
	}
	_ = m.cmd.Process.Kill() // it may have ended by itself
	<-m.done
	m.in.Close()
}

func (c *cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.members[i].cmd.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// leader waits for one.
func (c *cluster) leader() int {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		for i, m := range c.members {
			if m.leads.Load() {
				return i
			}
		}
	}
	c.t.Fatal("no member leads within a minute")
	return 0
}

// open returns a store on one member alone, as every server has it.
func (c *cluster) open(i int, wait, try time.Duration) *store.Store {
	c.t.Helper()
	s, err := store.Open(c.t.Context(), store.Config{
		Endpoints: []string{"https://" + c.members[i].spec.Client}, TLS: c.tls, DataKey: storetest.DataKey, Wait: wait, PerTry: try,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { s.Close() })
	return s
}

// caughtUp waits until a member answers a linearizable read.
func (c *cluster) caughtUp(s *store.Store) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, err = s.Members.Get(c.t.Context(), "none")
		if errors.Is(err, mesh.ErrNotFound) {
			return
		}
	}
	c.t.Fatalf("a member did not catch up: %v", err)
}

// pause waits, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
