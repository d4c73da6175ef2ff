package repo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestEveryTransport goes through the life of a remote over each of them.
func TestEveryTransport(t *testing.T) {
	everyRemote(t, func(t *testing.T, rm Remote, dir string) {
		r := open(t, Options{})
		if head, err := r.Fetch(t.Context(), rm); err != nil || head != "" {
			t.Fatalf("an empty remote: %s, %v", head, err)
		}
		one := put(t, r, "one", file("a", "1"), file("big", strings.Repeat("some text\n", 20_000)), file("d/e", "2"))
		push(t, r, rm)
		two := put(t, r, "two", file("a", "2"))
		push(t, r, rm)
		git(t, dir, "fsck", "--strict", "--full")
		if got := git(t, dir, "rev-parse", "main"); got != string(two) {
			t.Errorf("the remote is at %s, want %s", got, two)
		}
		c, err := Clone(t.Context(), rm, "", 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !maps.Equal(content(t, c, two), content(t, r, two)) || !maps.Equal(content(t, c, one), content(t, r, one)) {
			t.Error("the clone is not what was pushed")
		}
		// Somebody else adds one; only that one is fetched.
		other := put(t, c, "other", file("x", "y"))
		push(t, c, rm)
		if head, err := r.Fetch(t.Context(), rm); err != nil || head != other || r.Head() != two {
			t.Errorf("fetched %s (%v), want %s; the head is %s", head, err, other, r.Head())
		}
		put(t, r, "three", file("a", "3"))
		if err := r.Push(t.Context(), rm, r.Head(), nil); !errors.Is(err, mesh.ErrConflict) || ReasonOf(err) != ReasonForeign {
			t.Errorf("a push beside another's commit: %v, want ErrConflict", err)
		}
		if err := r.PushBranch(t.Context(), rm, "conflict/1", r.Head(), nil); err != nil {
			t.Error(err)
		}
		if heads, err := r.Heads(t.Context(), rm); err != nil || heads["conflict/1"] != r.Head() || heads["main"] != other {
			t.Errorf("heads are %v (%v)", heads, err)
		}
	})
}

func TestAllowStopsBeforeThePush(t *testing.T) {
	r, dir := open(t, Options{}), bare(t)
	put(t, r, "one", file("a", "1"))
	deposed := errors.New("deposed")
	if err := r.Push(t.Context(), local(dir), r.Head(), func(context.Context) error { return deposed }); !errors.Is(err, deposed) {
		t.Errorf("push: %v, want the refusal", err)
	}
	if head, err := r.RemoteHead(t.Context(), local(dir)); err != nil || head != "" {
		t.Errorf("the remote has %s (%v), want nothing", head, err)
	}
}

// TestLongHistoryGoesInSteps pushes more commits than one push takes.
func TestLongHistoryGoesInSteps(t *testing.T) {
	r, dir := open(t, Options{Limits: Limits{Loose: 500}}), bare(t)
	for i := range pushStep + 150 {
		put(t, r, "n", file("a", fmt.Sprint(i)))
	}
	asked := 0
	if err := r.Push(t.Context(), local(dir), r.Head(), func(context.Context) error { asked++; return nil }); err != nil {
		t.Fatal(err)
	}
	if asked != 2 {
		t.Errorf("pushed %d times, want 2", asked)
	}
	if got := git(t, dir, "rev-list", "--count", "main"); got != fmt.Sprint(pushStep+150) {
		t.Errorf("%s commits arrived", got)
	}
	git(t, dir, "fsck", "--strict")
	git(t, r.dir, "fsck", "--strict", "--full")
}

func TestFailuresHaveReasons(t *testing.T) {
	ctx := t.Context()
	r := open(t, Options{})
	put(t, r, "one", file("a", "1"))
	dir := bare(t)
	git(t, dir, "config", "http.receivepack", "false")
	web := startHTTP(t, filepath.Dir(dir))
	sshd := startSSH(t)
	stranger, _ := newKey(t)
	other := startSSH(t)
	change := func(rm Remote, f func(*Remote)) Remote { f(&rm); return rm }
	sha256 := bare(t, "--object-format=sha256")
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	for name, c := range map[string]struct {
		rm   Remote
		want Reason
		says string
	}{
		"a path that is not there":        {local(filepath.Join(dir, "no")), ReasonMissing, ""},
		"a path that is a file":           {local(file), ReasonMissing, ""},
		"SHA-256":                         {local(sha256), ReasonFormat, "SHA-256"},
		"nobody listens":                  {Remote{Name: "x", URL: "https://127.0.0.1:1/x"}, ReasonConnection, ""},
		"no such name":                    {Remote{Name: "x", URL: "https://no.such.name.invalid/x"}, ReasonName, ""},
		"a certificate of a stranger":     {change(web.remote(dir), func(rm *Remote) { rm.RootCAs = nil }), ReasonTLS, ""},
		"a wrong token":                   {change(web.remote(dir), func(rm *Remote) { rm.Credential = "wrong-token-canary" }), ReasonAuth, "401"},
		"no token":                        {change(web.remote(dir), func(rm *Remote) { rm.Auth = mesh.BackupAuthNone }), ReasonAuth, "401"},
		"https without such a repository": {change(web.remote(dir), func(rm *Remote) { rm.URL += "no" }), ReasonMissing, "404"},
		"https that may not be pushed to": {web.remote(dir), ReasonAuth, "403"},
		"a wrong SSH key":                 {change(sshd.remote(t, dir), func(rm *Remote) { rm.Credential = stranger }), ReasonAuth, ""},
		"no SSH key":                      {change(sshd.remote(t, dir), func(rm *Remote) { rm.Credential = "not a key canary" }), ReasonAuth, ""},
		"an unknown host key":             {change(sshd.remote(t, dir), func(rm *Remote) { rm.KnownHosts = nil }), ReasonHostKey, "SHA256:"},
		"another host key": {change(sshd.remote(t, dir), func(rm *Remote) {
			_, theirs, _ := strings.Cut(other.known, " ")
			mine, _, _ := strings.Cut(sshd.known, " ")
			rm.KnownHosts = []string{mine + " " + theirs}
		}), ReasonHostKey, "in between"},
		"SSH without such a repository": {sshd.remote(t, dir+"no"), ReasonMissing, "does not appear to be a git repository"},
		"SSH that hangs":                {change(sshd.remote(t, dir), func(rm *Remote) { rm.URL = "ssh://" + silent(t, "") + dir }), ReasonTimeout, ""},
		"SSH that hangs later":          {change(sshd.remote(t, dir), func(rm *Remote) { rm.URL = "ssh://" + silent(t, "SSH-2.0-x\r\n") + dir }), ReasonTimeout, ""},
		"https that hangs":              {Remote{Name: "x", URL: "https://" + silent(t, "") + "/x"}, ReasonTimeout, ""},
		"http that hangs in a header":   {Remote{Name: "x", URL: "http://" + silent(t, "HTTP/1.1 200 OK\r\nContent-") + "/x"}, ReasonTimeout, ""},
		"http that hangs in the answer": {Remote{Name: "x", URL: "http://" + silent(t, "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-receive-pack-advertisement\r\nContent-Length: 900\r\n\r\n001f# service=git-receive") + "/x"}, ReasonTimeout, ""},
		"something that is no Git":      {Remote{Name: "x", URL: "http://" + silent(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello") + "/x"}, ReasonFormat, "text/html"},
		"a password in the URL":         {Remote{Name: "x", URL: "https://git:canary@127.0.0.1/x"}, ReasonOther, "password"},
		"http elsewhere":                {Remote{Name: "x", URL: "http://192.0.2.1/x"}, ReasonOther, "token"},
		"a scheme that runs programs":   {Remote{Name: "x", URL: "ext::sh -c canary"}, ReasonOther, ""},
		"a path that is an option":      {Remote{Name: "x", URL: "--upload-pack=canary"}, ReasonOther, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.opts.Limits.Idle = time.Minute
			if c.want == ReasonTimeout {
				r.opts.Limits.Idle = 500 * time.Millisecond
			}
			start := time.Now()
			err := r.Push(ctx, c.rm, r.Head(), nil)
			if err == nil || ReasonOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("push: %v (reason %s), want reason %s", err, ReasonOf(err), c.want)
			}
			if err == nil {
				return
			}
			if mesh.Kind(err) == nil {
				t.Errorf("%v has no kind", err)
			}
			if strings.Contains(err.Error()+mesh.Hint(err), "canary") {
				t.Errorf("the error holds the credential: %v", err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestHostKeyFaultSaysWhatToAdd(t *testing.T) {
	s, dir := startSSH(t), bare(t)
	rm := s.remote(t, dir)
	rm.KnownHosts = nil
	r := open(t, Options{})
	_, err := r.Fetch(t.Context(), rm)
	f, ok := errors.AsType[*Fault](err)
	if !ok || !strings.HasPrefix(f.Fingerprint, "SHA256:") || !strings.Contains(mesh.Hint(err), s.known) {
		t.Fatalf("%v, hint %q, want the fingerprint and the line", err, mesh.Hint(err))
	}
}

func TestRedirectWithinTheServerIsFollowed(t *testing.T) {
	dir := bare(t)
	git(t, dir, "config", "http.receivepack", "true")
	s := startHTTP(t, filepath.Dir(dir))
	rm := s.remote(dir)
	rm.URL = s.URL + "/moved/" + filepath.Base(dir)
	r := open(t, Options{})
	put(t, r, "one", file("a", "1"))
	push(t, r, rm)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, saw := range s.saw {
		if strings.HasPrefix(saw, "POST /moved") {
			t.Errorf("asked at the old place: %s", saw)
		}
	}
}

func TestCancelEndsEverything(t *testing.T) {
	r, dir := open(t, Options{}), bare(t)
	rm := Remote{Name: "x", URL: "ssh://" + silent(t, "") + dir, Auth: mesh.BackupAuthSSHKey}
	rm.Credential, _ = newKey(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("deposed"))
	defer cancel()
	start := time.Now()
	if _, err := r.Fetch(ctx, rm); err == nil || !strings.Contains(err.Error(), "deposed") {
		t.Errorf("fetch: %v, want the cause", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestProtectedBranch wants to be told apart from somebody who was faster.
func TestProtectedBranch(t *testing.T) {
	s, dir := startSSH(t), bare(t)
	hook := filepath.Join(dir, "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho protected >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{})
	put(t, r, "one", file("a", "1"))
	err := r.Push(t.Context(), s.remote(t, dir), r.Head(), nil)
	if !errors.Is(err, mesh.ErrDenied) || ReasonOf(err) != ReasonRefused {
		t.Errorf("push: %v (%s), want ErrDenied and refused", err, ReasonOf(err))
	}
	// A folder's hooks would run as us, and do not.
	push(t, r, local(dir))
}

func TestNoGitProgram(t *testing.T) {
	r := open(t, Options{Git: "/nonexistent/git"})
	if _, err := r.Fetch(t.Context(), local(bare(t))); ReasonOf(err) != ReasonNoGit {
		t.Errorf("fetch: %v (%s), want no-git", err, ReasonOf(err))
	}
}

// TestGitThatHangs: the program is ended with all that it started.
func TestGitThatHangs(t *testing.T) {
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	script := filepath.Join(dir, "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 600 &\necho $! > "+pid+"\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{Git: script, Limits: Limits{Idle: time.Second}})
	start := time.Now()
	if _, err := r.Fetch(t.Context(), local(dir)); ReasonOf(err) != ReasonTimeout || !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("fetch: %v (%s), want a timeout", err, ReasonOf(err))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	b, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it still runs: %s", state)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestShallowClone goes on from a clone without history, and says what it
// cannot do.
func TestShallowClone(t *testing.T) {
	r, dir := open(t, Options{}), bare(t)
	for i := range 5 {
		put(t, r, "n", file("a", fmt.Sprint(i)))
	}
	push(t, r, local(dir))
	c, err := Clone(t.Context(), local(dir), "", 1, Options{})
	must(t, err)
	defer c.Close()
	want := put(t, c, "next", file("a", "next"))
	push(t, c, local(dir))
	if got := git(t, dir, "rev-parse", "main"); got != string(want) {
		t.Errorf("the remote is at %s, want %s", got, want)
	}
	git(t, dir, "fsck", "--strict")
	err = c.Push(t.Context(), local(bare(t)), c.Head(), nil)
	if !errors.Is(err, mesh.ErrConflict) || ReasonOf(err) != ReasonRefused || mesh.Hint(err) == "" {
		t.Errorf("push to a new remote: %v (%s), want it refused with a hint", err, ReasonOf(err))
	}
	// With the rest of the history it can be.
	if _, err := r.Fetch(t.Context(), local(dir)); err != nil {
		t.Fatal(err)
	}
}

// TestLongHistoryIsNotFetchedWhole: an empty clone gets the newest commits, and
// everything goes on from there, even a remote that was set far back.
func TestLongHistoryIsNotFetchedWhole(t *testing.T) {
	everyRemote(t, func(t *testing.T, rm Remote, dir string) {
		r := open(t, Options{Mine: mineOnly})
		first := state(t, r, "a", "0")
		for i := range 9 {
			state(t, r, "a", fmt.Sprint(i+1))
		}
		push(t, r, rm)
		few := open(t, Options{Mine: mineOnly, Limits: Limits{History: 3}})
		if in := integrate(t, few, rm); in.Outcome != OutcomeAdopted || in.Head != r.Head() {
			t.Fatalf("%+v", in)
		}
		if got := git(t, few.dir, "rev-list", "--count", "HEAD"); got != "3" {
			t.Errorf("%s commits came, want 3", got)
		}
		must(t, few.Close())
		few = openAt(t, few.dir, few.opts)
		state(t, few, "b", "1")
		push(t, few, rm)
		if in := integrate(t, r, rm); in.Outcome != OutcomeAdopted {
			t.Errorf("%+v", in)
		}
		state(t, r, "b", "2")
		push(t, r, rm)
		if in := integrate(t, few, rm); in.Outcome != OutcomeAdopted || content(t, few, "")["our/b"] != "2" {
			t.Errorf("%+v", in)
		}
		git(t, dir, "update-ref", "refs/heads/main", string(first))
		if in := integrate(t, few, rm); content(t, few, in.Head)["our/b"] != "2" {
			t.Errorf("%+v: %v", in, content(t, few, in.Head))
		}
		push(t, few, rm)
		git(t, dir, "fsck", "--strict")
		git(t, few.dir, "fsck", "--strict")
	})
}

// TestFolderOfSomebodyElse: git does not trust it, and the hint says what to do.
func TestFolderOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := bare(t)
	must(t, os.Chown(dir, 12345, 12345))
	r := open(t, Options{})
	if _, err := r.Fetch(t.Context(), local(dir)); ReasonOf(err) != ReasonAuth || !strings.Contains(mesh.Hint(err), "belong") {
		t.Errorf("fetch: %v (%s), hint %q", err, ReasonOf(err), mesh.Hint(err))
	}
}
