package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/backup"
)

func TestMain(m *testing.M) {
	if point := os.Getenv(childEnv); point != "" {
		os.Exit(child(point))
	}
	goleak.VerifyTestMain(m)
}

// need says which program a test cannot do without. Continuous integration has
// all of them.
func need(t testing.TB, program, pkg string) string {
	t.Helper()
	for _, p := range []string{program, "/usr/sbin/" + program, "/usr/lib/git-core/" + program} {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	msg := fmt.Sprintf("%s is missing; install it (Debian: apt install %s)", program, pkg)
	if os.Getenv("MESHCTL_TEST_NOSKIP") != "" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// git runs the git program and returns what it prints.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "git", "git"), args...)
	cmd.Dir = dir
	cmd.Env = append(safeEnv(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.net",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.net", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// bare makes an empty repository for others to push to.
func bare(t testing.TB, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "remote.git")
	git(t, "", append(append([]string{"init", "-q", "--bare", "-b", "main"}, args...), dir)...)
	return dir
}

func open(t testing.TB, opts Options) *Repo {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "repo.git"), opts)
}

func openAt(t testing.TB, dir string, opts Options) *Repo {
	t.Helper()
	r, err := Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// local is a remote that is a path.
func local(dir string) Remote { return Remote{Name: "disk", URL: dir, Auth: "none"} }

func file(path, text string) backup.File { return backup.File{Path: path, Data: []byte(text)} }

func gone(path string) backup.File { return backup.File{Path: path, Gone: true} }

// epoch is when the tests' first commit is made.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// commit makes a commit on the head.
func put(t testing.TB, r *Repo, msg string, files ...backup.File) ID {
	t.Helper()
	id, err := tryPut(t.Context(), r, msg, files...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func tryPut(ctx context.Context, r *Repo, msg string, files ...backup.File) (ID, error) {
	d, err := r.Begin(r.Head())
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if err := d.Put(ctx, f); err != nil {
			return "", err
		}
	}
	m := Meta{Message: msg, When: epoch, Trailers: []Trailer{{TrailerEpoch, "1/2"}}}
	if h := r.Head(); h != "" {
		m.Parents = []ID{h}
		c, err := r.Commit(h)
		if err != nil {
			return "", err
		}
		m.When = c.When.Add(time.Minute)
	}
	return d.Commit(ctx, m)
}

// content is a commit's files.
func content(t testing.TB, r *Repo, id ID) map[string]string {
	t.Helper()
	if id == "" {
		id = r.Head()
	}
	tree, err := r.Tree(id)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	last := ""
	err = tree.Each(t.Context(), "", func(path string, data []byte) error {
		if path <= last {
			return errors.New("out of order")
		}
		last = path
		out[path] = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func push(t testing.TB, r *Repo, rm Remote) {
	t.Helper()
	if err := r.Push(t.Context(), rm, r.Head(), nil); err != nil {
		t.Fatal(err)
	}
}
