package doctor

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/internal/freeport"
)

func find(t *testing.T, c Check) Finding {
	t.Helper()
	f := Examine(t.Context(), []Check{c})[0]
	if f.Check != c.Name {
		t.Errorf("the finding is headed %q, want %q", f.Check, c.Name)
	}
	if f.Status != OK && f.Mend == "" {
		t.Errorf("%s: %s: no word on how to mend it", f.Check, f.Detail)
	}
	return f
}

func want(t *testing.T, f Finding, status Status, text string) {
	t.Helper()
	if f.Status != status || !strings.Contains(f.Detail, text) {
		t.Errorf("%s: got %s %q, want %s with %q", f.Check, f.Status, f.Detail, status, text)
	}
}

func TestFolder(t *testing.T) {
	base := t.TempDir()
	open, file := filepath.Join(base, "open"), filepath.Join(base, "file")
	private := filepath.Join(base, "private")
	for dir, mode := range map[string]os.FileMode{open: 0o755, private: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, find(t, Folder(private, 1)), OK, "mode 0700")
	want(t, find(t, Folder(private, 1<<62)), Fail, "GiB free")
	want(t, find(t, Folder(open, 1)), Fail, "0755")
	want(t, find(t, Folder(file, 1)), Fail, "not a folder")
	want(t, find(t, Folder(filepath.Join(base, "a", "b"), 1)), OK, "will be made")
}

func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", freeport.Addr(t))
	if err != nil {
		t.Fatal(err)
	}
	health := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer health.Close()
	addr := l.Addr().String()
	want(t, find(t, Listener("port", addr, "127.0.0.1:1")), Fail, "no meshctl answers at 127.0.0.1:1")
	want(t, find(t, Listener("port", addr, "")), Warn, "perhaps by the running meshctl")
	want(t, find(t, Listener("port", addr, strings.TrimPrefix(health.URL, "http://"))), OK, "running meshctl")
	l.Close()
	want(t, find(t, Listener("port", addr, "")), OK, "free")
	want(t, find(t, Listener("port", "192.0.2.1:0", "")), Fail, "does not have the address")
}

func TestDescriptors(t *testing.T) {
	want(t, find(t, Descriptors(1)), OK, "1 needed")
	want(t, find(t, Descriptors(1<<40)), Fail, "needed")
}

func TestReachNamesTheStage(t *testing.T) {
	closed := freeport.Addr(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	want(t, find(t, Reach("nonsense", nil)), Fail, "not host:port")
	want(t, find(t, Reach("no-such-host.invalid:1", nil)), Fail, "does not resolve")
	want(t, find(t, Reach(closed, nil)), Fail, "no TCP connection")
	want(t, find(t, Reach(strings.TrimPrefix(plain.URL, "http://"), nil)), Fail, "TLS does not")
}

func TestIdentityOfAMachineThatHasNotJoined(t *testing.T) {
	want(t, find(t, Identity(filepath.Join(t.TempDir(), "none"))), Warn, "has not joined")
}

func TestWorst(t *testing.T) {
	for want, in := range map[Status][]Finding{
		OK:   {{Status: OK}},
		Warn: {{Status: OK}, {Status: Warn}, {Status: OK}},
		Fail: {{Status: Fail}, {Status: Warn}},
	} {
		if got := Worst(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEveryCheckIsBounded(t *testing.T) {
	f := Examine(t.Context(), []Check{{"x", func(ctx context.Context) Finding {
		if _, ok := ctx.Deadline(); !ok {
			return fail("no deadline", "set one")
		}
		return ok("bounded")
	}}})
	want(t, f[0], OK, "bounded")
}
