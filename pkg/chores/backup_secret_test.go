package chores

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func sshKey(t *testing.T) mesh.Secret {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Secret(pem.EncodeToMemory(block))
}

// parts are the lines of a credential that nobody may see.
func parts(s mesh.Secret) []string {
	var out []string
	for line := range strings.SplitSeq(s.Reveal(), "\n") {
		if len(line) > 3 && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

func TestCredentialsAreSeenNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote, folder := bare(t), t.TempDir()
	a := newArchive(t, w, BackupEpoch{1, 1}, folder, remote, "ssh://git@"+freeport.Addr(t)+"/x.git", "https://"+freeport.Addr(t)+"/x.git", "https://nothing.invalid/x.git")
	key, sign, token := sshKey(t), sshKey(t), mesh.Secret("t0ken-of-the-remote")
	a.order.SignKey = sign
	a.order.Remotes[1].Auth, a.order.Remotes[1].Credential = mesh.BackupAuthSSHKey, key
	for i := range 2 {
		a.order.Remotes[2+i].Auth, a.order.Remotes[2+i].Credential = mesh.BackupAuthToken, token
	}
	canaries := append(append(parts(key), parts(sign)...), token.Reveal())
	var mu sync.Mutex
	var seen bytes.Buffer
	s := newBackups(t, a)
	on(a, func(string) {
		// While it is at work: the programs that it started, too.
		mu.Lock()
		defer mu.Unlock()
		for _, pattern := range []string{"cmdline", "environ", "comm", "maps", "task/*/children"} {
			for _, file := range family(s.Status().PID, pattern) {
				b, _ := os.ReadFile(file) // one that has ended has none
				seen.Write(b)
			}
		}
	})
	w.change(1)
	due := a.due()
	s.Wake()
	for i, want := range []BackupFailure{"", FailConnection, FailConnection, FailName} {
		until(t, "it was tried", func() bool {
			_, err := a.last(due)
			r, ok := a.left(fmt.Sprintf("remote%d", i))
			return err == nil && ok && r.Failure == want
		})
	}
	if !strings.Contains(git(t, remote, "cat-file", "commit", "main"), "-----BEGIN SSH SIGNATURE-----") {
		t.Error("the commit is not signed")
	}
	s.depose()
	<-s.gone // it goes on trying until then, with files that come and go
	mu.Lock()
	defer mu.Unlock()
	a.set(func() { fmt.Fprintf(&seen, "%+v", a.outcomes) })
	fmt.Fprintf(&seen, "%s%+v%v", s.logs, s.Status(), a.Order())
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			seen.Write(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range canaries {
		if bytes.Contains(seen.Bytes(), []byte(c)) {
			t.Errorf("%q was seen", c)
		}
	}
	if !bytes.Contains(seen.Bytes(), []byte("mgmt\x00aux")) {
		t.Error("it was not looked at")
	}
}

// family are the files of that name of a process and of those that it started.
func family(pid int, name string) []string {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/%s", pid, name)) // the pattern is well formed
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		files = append(files, "/proc/"+child+"/"+name)
	}
	return files
}

func TestWhatTheChildSaysIsWithoutCredentials(t *testing.T) {
	key := sshKey(t)
	f := &Foreman{Ping: Ping{URL: "https://watch.example/5ecret"}}
	f.desk.jobs.backup = &controlpb.BackupOrder{SignKey: key.Reveal(), Remotes: []*controlpb.BackupRemote{{Credential: "t0ken-of-the-remote"}, {}}}
	for _, secret := range append(parts(key), "t0ken-of-the-remote", "/5ecret") {
		if got := f.redact("panic: " + secret + " is it"); got != "panic: [redacted] is it" {
			t.Errorf("%s", got)
		}
	}
	if got := new(Foreman).redact("x"); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestAPushThatHangsKeepsNobodyWaiting: the ping goes on, the child is not silent,
// and an order that takes the backup back is obeyed.
func TestAPushThatHangsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(asked)
				return
			}
			asked <- c // and never a word
		}
	}()
	watch := newWatch(t)
	a := newArchive(t, newWorld(t), BackupEpoch{1, 1}, t.TempDir(), "ssh://git@"+ln.Addr().String()+"/x.git")
	a.order.Remotes[0].Auth, a.order.Remotes[0].Credential = mesh.BackupAuthSSHKey, sshKey(t)
	s := newSite(t, watch.url(), func(f *Foreman) { f.Backup, f.Scratch = a, t.TempDir() })
	a.due()
	s.Wake()
	conn := <-asked
	defer conn.Close()
	pid := s.Status().PID
	before := watch.asked.Load()
	a.due() // is for the next round
	s.Wake()
	until(t, "pings go on", func() bool { return watch.asked.Load() >= before+3 })
	if len(asked) != 0 {
		t.Error("a commit that is due ended a push")
	}
	a.set(func() { a.order.Epoch.Leader++ }) // ends it
	s.Wake()
	defer (<-asked).Close()
	begun := time.Now()
	s.depose()
	<-s.gone
	if took := time.Since(begun); took > obeyTime || s.Status().PID != pid || s.Status().Restarts != 0 {
		t.Errorf("it took %v; %+v", took, s.Status())
	}
}
