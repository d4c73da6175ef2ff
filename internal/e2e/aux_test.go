package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// pinging is a server with a child process, since it has something to ping, and
// a core that phones home to it.
type pinging struct {
	server
	b     *background
	asked atomic.Int32 // how often somebody pinged
	args  []string
	cores admin.TokenCreateRequest // of a core's token, but for the name
}

const pingSecret = "5ecret-of-the-watch"

func newPinging(t *testing.T) *pinging {
	t.Helper()
	p := &pinging{server: newServer(t)}
	watch := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+pingSecret {
			p.asked.Add(1)
		}
	}))
	t.Cleanup(watch.Close)
	p.args = []string{"--ping-url-file", secretFile(t, watch.URL+"/"+pingSecret), "--ping-interval", "1s",
		"--founding-allowed-addresses", "127.0.0.0/8", "--log-level", "debug"}
	p.serve(t)
	m := pingCall(t, p, admin.MemberAdd, admin.MemberAddRequest{Name: "Alice"})
	c := pingCall(t, p, admin.CellAdd, admin.CellAddRequest{Name: "cell", Suffix: "a.example.net"})
	p.cores = admin.TokenCreateRequest{Role: mesh.RoleCore, Member: string(m.ID), Cell: string(c.ID)}
	return p
}

// serve starts the server and waits for a ping.
func (p *pinging) serve(t *testing.T) {
	t.Helper()
	before := p.asked.Load()
	p.b, _ = p.mustServe(t, p.args...)
	t.Cleanup(func() {
		if strings.Contains(p.b.out.String(), pingSecret) {
			t.Error("the log has the URL")
		}
		if t.Failed() {
			t.Log(p.b.out)
		}
	})
	eventually(t, patience, "a ping", func() error {
		if p.asked.Load() == before {
			return errors.New("none")
		}
		return nil
	})
}

func pingCall[Req, Resp any](t *testing.T, p *pinging, m admin.Method[Req, Resp], req Req) Resp {
	t.Helper()
	cc, err := admin.DialSocket(p.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := m.Call(ctx, cc, req)
	if err != nil {
		t.Fatalf("%s: %v\n%s", m.Name, err, p.b.out)
	}
	return resp
}

func (p *pinging) status(t *testing.T) admin.ServerStatus {
	t.Helper()
	s := pingCall(t, p, admin.ServerStatusGet, admin.None{})
	if s.Aux == nil {
		t.Fatal("the server has no child")
	}
	return s
}

// replaced waits for another child than before, and goes on meanwhile: each look
// is a change, and some are a certificate too.
func (p *pinging) replaced(t *testing.T, before admin.AuxStatus) admin.AuxStatus {
	t.Helper()
	var after admin.ServerStatus
	n := 0
	eventually(t, patience, "another child", func() error {
		if p.b.over() {
			t.Fatalf("the server has ended:\n%s", p.b.out)
		}
		n++
		pingCall(t, p, admin.MemberAdd, admin.MemberAddRequest{Name: mesh.NewLabel()})
		if n%20 == 1 {
			enrollOnly(t, p.token(t), filepath.Join(t.TempDir(), "core")).want(t, exitOK)
		}
		if after = p.status(t); after.Aux.PID == 0 || after.Aux.PID == before.PID {
			return fmt.Errorf("%+v", *after.Aux)
		}
		return nil
	})
	return *after.Aux
}

func TestTheServerGoesOnWhateverBecomesOfItsChild(t *testing.T) {
	t.Parallel()
	p := newPinging(t)
	core := p.startCore(t)
	now := *p.status(t).Aux

	least := 250 * time.Millisecond // half of the first step of the back-off
	for n := range 5 {
		signalChild(t, now.PID, syscall.SIGKILL)
		now = p.replaced(t, now)
		delay := now.Started.Sub(now.LastEnded)
		t.Logf("killed for the %d. time: back after %v", n+1, delay)
		if delay < least || now.LastEnd != "child: signal: killed" || now.Restarts != n+1 {
			t.Errorf("back after %v, want at least %v: %+v", delay, least, now)
		}
		least *= 2
	}
	before := p.asked.Load()
	eventually(t, patience, "a ping of the last child", func() error {
		if p.asked.Load() == before {
			return errors.New("none")
		}
		return nil
	})
	if s := p.status(t); len(s.Nodes) != 1 || s.Nodes[0] != core {
		t.Errorf("the core's stream did not stay: %+v, want %+v", s.Nodes, core)
	}
	meshctl(t, "mgmt", "status", "--dir", p.dir, "--name", "one", "--listen", "127.0.0.1:1", "--socket", p.socket).want(t, exitOK, "Dead-man ping:", "arrived ", "Child process:", "signal: killed")
}

// token is for a new core.
func (p *pinging) token(t *testing.T) string {
	t.Helper()
	req := p.cores
	req.Name = mesh.NewLabel()
	return pingCall(t, p, admin.TokenCreate, req).Token
}

// startCore starts a core and returns its stream, as the server sees it.
func (p *pinging) startCore(t *testing.T) (line admin.NodeLine) {
	t.Helper()
	command{args: []string{"core", "join", "--token-file", secretFile(t, p.token(t)), "--dir", filepath.Join(t.TempDir(), "core"),
		"--listen", "127.0.0.1:0", "--metrics-listen", ""}}.start(t)
	eventually(t, patience, "the core phones home", func() error {
		s := p.status(t)
		if len(s.Nodes) != 1 {
			return fmt.Errorf("%+v", s.Nodes)
		}
		line = s.Nodes[0]
		return nil
	})
	return line
}

func signalChild(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func TestTheChildHasNothingOfTheServer(t *testing.T) {
	t.Parallel()
	p := newPinging(t)
	aux := p.status(t).Aux
	bare(t, aux.PID, p.home, pingSecret)

	signalChild(t, aux.PID, syscall.SIGSTOP)
	begin := time.Now()
	now := p.replaced(t, *aux)
	t.Logf("a frozen child was replaced after %v", time.Since(begin))
	if !strings.Contains(now.LastEnd, "silent") {
		t.Errorf("it ended: %s", now.LastEnd)
	}

	p.b.signal(t, syscall.SIGKILL)
	begin = time.Now()
	p.b.ended(t)
	eventually(t, patience, "the child dies with its server", func() error { return ended(now.PID) })
	t.Logf("the child died with its server after %v", time.Since(begin))

	p.serve(t)
	aux = p.status(t).Aux
	bare(t, aux.PID, p.home, pingSecret)
	p.stop(t, p.b) // exit code 0
	if err := ended(aux.PID); err != nil {
		t.Error(err)
	}
	if out := p.b.out.String(); strings.Contains(out, "level=ERROR") || strings.Contains(out, "child ended") || strings.Contains(out, "child said") {
		t.Errorf("a clean stop logs faults:\n%s", out)
	}
}

// bare checks that no open file, mapping, argument or variable of the
// process has any of the texts.
func bare(t *testing.T, pid int, texts ...string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	seen := map[string][]byte{}
	for _, file := range []string{"cmdline", "environ", "maps"} {
		text, err := os.ReadFile(proc + file)
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		seen[file] = text
	}
	links, err := filepath.Glob(proc + "fd/*")
	if err != nil || len(links) < 4 {
		t.Fatalf("%v, %v", links, err)
	}
	for _, l := range append(links, proc+"cwd") {
		if target, err := os.Readlink(l); err == nil {
			seen[l] = []byte(target)
		}
	}
	for where, text := range seen {
		for _, secret := range texts {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has %s: %q", where, secret, text)
			}
		}
	}
	if env := string(seen["environ"]); strings.Contains(env, "HOME=") || !strings.Contains(env, "PATH=/usr/local/bin:/usr/bin:/bin\x00") {
		t.Errorf("its environment is the server's: %q", env)
	}
}

// ended is an error while a process runs.
func ended(pid int) error {
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return nil // gone meanwhile, or waited for by nobody yet
		}
		return fmt.Errorf("process %d runs", pid)
	}
	return nil
}

func TestTheChildsCommandIsNotForPeople(t *testing.T) {
	t.Parallel()
	meshctl(t, "mgmt", "aux").refused(t, exitUsage, "child process of a management server").hinted(t, "meshctl mgmt serve")
	open := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(open, []byte("https://watch.example/"+pingSecret), 0o644); err != nil {
		t.Fatal(err)
	}
	newServer(t).command("--ping-url-file", open).run(t).refused(t, exitConfig, "ping.url-file", "0644").hinted(t, "chmod")
	o := newServer(t).command("--ping-url-file", secretFile(t, "ftp://watch.example/"+pingSecret)).run(t).refused(t, exitConfig, "ping.url-file", "http")
	if strings.Contains(o.stderr, pingSecret) {
		t.Errorf("the error has the URL: %s", o.stderr)
	}
}
