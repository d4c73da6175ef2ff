package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// server is a management server alone.
type server struct{ home, dir, socket, passphrase string }

func newServer(t *testing.T) server {
	t.Helper()
	home := shortDir(t)
	return server{home, filepath.Join(home, "data"), filepath.Join(home, "s"), secretFile(t, mesh.NewSecret(24).Reveal())}
}

// command serves on ports that the system chooses.
func (s server) command(more ...string) command {
	return command{args: append([]string{"mgmt", "serve", "--dir", s.dir, "--name", "one", "--socket", s.socket, "--passphrase-file", s.passphrase,
		"--listen", "127.0.0.1:0", "--metrics-listen", "", "--etcd-client-listen", "127.0.0.1:0", "--etcd-peer-listen", "127.0.0.1:0"}, more...)}
}

// answers returns the mesh's id, once the server answers.
func (s server) answers(ctx context.Context) (mesh.ID, error) {
	cc, err := admin.DialSocket(s.socket)
	if err != nil {
		return "", err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, err := admin.StatusGet.Call(ctx, cc, admin.None{})
	return st.Mesh, err
}

// up waits until the server answers or ends.
func (s server) up(t *testing.T, b *background) (id mesh.ID, up bool) {
	t.Helper()
	eventually(t, patience, "the server answers or ends", func() (err error) {
		if b.over() {
			return nil
		}
		id, err = s.answers(t.Context())
		return err
	})
	return id, !b.over()
}

func (s server) mustServe(t *testing.T, more ...string) (*background, mesh.ID) {
	t.Helper()
	b := s.command(more...).start(t)
	id, up := s.up(t, b)
	if !up {
		t.Fatalf("the server has ended with %d:\n%s", b.ended(t), b.out)
	}
	return b, id
}

func (s server) stop(t *testing.T, b *background) {
	t.Helper()
	b.signal(t, syscall.SIGTERM)
	if code := b.ended(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, b.out)
	}
}

func TestFoundingCutOffAtAnyMoment(t *testing.T) {
	moments := map[string]func(s server) func() bool{}
	for _, file := range []string{"lock", "data.key", "etcd-ca.pem", "root.sealed", "root.crt", "intermediate.key", "intermediate.crt", "server.json", "etcd-tls", "etcd/member/wal", "node", "node/identity-1.pem", "founded.json"} {
		moments["when there is "+file] = func(s server) func() bool {
			return func() bool {
				_, err := os.Stat(filepath.Join(s.dir, file))
				return err == nil
			}
		}
	}
	for i := range 3 {
		moments[fmt.Sprintf("at random %d", i)] = func(server) func() bool {
			then := time.Now().Add(time.Duration(rand.Int64N(int64(time.Second))))
			return func() bool { return time.Now().After(then) }
		}
	}
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			b := s.command().start(t)
			reached := moment(s)
			for !reached() && !b.over() {
				<-time.After(200 * time.Microsecond)
			}
			b.signal(t, syscall.SIGKILL)
			b.ended(t)
			_, err := os.Stat(filepath.Join(s.dir, "server.json"))
			s.goesOn(t, err == nil)
		})
	}
}

// goesOn starts the server again: it founds or resumes, or refuses with a way
// out that works.
func (s server) goesOn(t *testing.T, known bool) {
	t.Helper()
	b := s.command().start(t)
	id, up := s.up(t, b)
	if !up {
		if known {
			t.Errorf("a server that knew its mesh does not go on:\n%s", b.out)
		}
		text := b.out.String()
		o := outcome{command: command{args: b.Args}, code: b.ended(t), stderr: text}
		o.refused(t, exitConfig, s.dir, "founding that did not finish").hinted(t, "rm -r "+s.dir)
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
		b, id = s.mustServe(t)
	}
	t.Logf("after the restart: founded or resumed %v", up)
	s.stop(t, b)
	again, same := s.mustServe(t)
	if same != id {
		t.Errorf("mesh %s has become %s", id, same)
	}
	s.stop(t, again)
}

func TestFoundingNeedsAPassphrase(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	with := func(file string) outcome {
		s.passphrase = file
		return s.command().run(t)
	}
	with("").refused(t, exitConfig, "passphrase", "no terminal").hinted(t, "--passphrase-file")
	with(secretFile(t, "short")).refused(t, exitConfig, "passphrase", "5 characters")
	with(filepath.Join(s.home, "none")).refused(t, exitConfig, "passphrase-file", "none")
	open := secretFile(t, "correct horse battery staple")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	with(open).refused(t, exitConfig, open, "may be read by others").hinted(t, "chmod 600")
	if files, err := os.ReadDir(s.dir); err == nil {
		for _, f := range files {
			if f.Name() != "lock" {
				t.Errorf("%s was left by a founding that was refused", f.Name())
			}
		}
	}
}

func TestTwoServersInOneFolder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, _ := s.mustServe(t)
	s.command().run(t).refused(t, exitConfig, s.dir, "in use")
	meshctl(t, "mgmt", "status", "--dir", s.dir, "--socket", s.socket).want(t, exitOK, "mgmt-")
	s.stop(t, b)
	// What can be read of it is shown also when it is down.
	o := meshctl(t, "mgmt", "status", "--dir", s.dir, "--socket", s.socket).want(t, exitUnavailable, "no management server answers")
	if !strings.Contains(o.stdout, "mgmt-") {
		t.Errorf("a server that is down shows nothing of itself:\n%s", o.stdout)
	}
}
