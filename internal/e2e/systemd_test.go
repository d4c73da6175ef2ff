package e2e

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// serviceManager is what systemd is to a role: a socket that is told how it
// goes, and a folder with a secret. The secret has the mode that systemd's have
// where access is granted by an access list.
func serviceManager(t *testing.T, credential, secret string) (told *net.UnixConn, env []string) {
	t.Helper()
	dir := shortDir(t)
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { told.Close() })
	file := filepath.Join(dir, credential)
	if err := errors.Join(os.WriteFile(file, []byte(secret+"\n"), 0o400), os.Chmod(file, 0o440)); err != nil {
		t.Fatal(err)
	}
	return told, []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "notify"), "WATCHDOG_USEC=2000000", "CREDENTIALS_DIRECTORY=" + dir}
}

// hears waits until the manager is told text, and returns what came before.
func hears(t *testing.T, told *net.UnixConn, text string, b *background) string {
	t.Helper()
	if err := told.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var before strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := told.Read(buf)
		if err != nil {
			t.Fatalf("the manager is not told %q (%v), but:\n%s\n%s", text, err, &before, b.out)
		}
		if strings.Contains(string(buf[:n]), text) {
			return before.String()
		}
		before.WriteString(string(buf[:n]) + "\n")
	}
}

func TestRolesTellTheServiceManagerAndFindItsSecrets(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	server := newServer(t)
	server.passphrase = "" // the manager has it
	entryToken := call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "managed-entry"}).Token
	node := func(args ...string) command {
		return command{args: append(args, "--dir", filepath.Join(t.TempDir(), "node"), "--listen", "127.0.0.1:0", "--metrics-listen", "")}
	}
	for _, c := range []struct {
		role, credential, secret string
		run                      command
	}{
		{"mgmt", "passphrase", mesh.NewSecret(24).Reveal(), server.command()},
		{"core", "token", coreToken(t, m, "managed-core").Token, node("core", "join", "--wait")},
		{"entry", "token", entryToken, node("entry", "run", "--limits-connections", "64")},
	} {
		t.Run(c.role, func(t *testing.T) {
			told, env := serviceManager(t, c.credential, c.secret)
			c.run.env = append(c.run.env, env...)
			b := c.run.start(t)
			if before := hears(t, told, "READY=1", b); strings.Contains(before, "STOPPING") {
				t.Errorf("before it was ready it said:\n%s", before)
			}
			hears(t, told, "WATCHDOG=1", b)
			b.signal(t, syscall.SIGTERM)
			hears(t, told, "STOPPING=1", b)
			if code := b.ended(t); code != exitOK {
				t.Errorf("exit code %d\n%s", code, b.out)
			}
			if strings.Contains(b.out.String(), "service manager not reached") {
				t.Errorf("it lost the manager:\n%s", b.out)
			}
		})
	}
}
