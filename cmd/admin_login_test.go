package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// runAdmin runs an admin command and returns its exit code and what it printed.
func runAdmin(args ...string) (int, string) {
	var out strings.Builder
	code := Main(append([]string{"admin"}, args...), strings.NewReader(""), &out, &out)
	return code, out.String()
}

// Who has an identity that ended can still delete it.
func TestLogoutAfterTheCertificateEnded(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "meshctl", adminIdentity)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := identity.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	request, err := folder.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	m := identitytest.New(t)
	node, err := folder.Commit(request, m.Answer(t, m.Identity(mesh.RoleAdmin), request.CSR(), identitytest.Life(2*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(node.Leaf().NotAfter) + time.Millisecond)
	if code, out := runAdmin("--server", "127.0.0.1:1", "status"); code != exitFailure || !strings.Contains(out, "ended at") {
		t.Errorf("status: exit %d: %s", code, out)
	}
	if code, out := runAdmin("logout", "--yes"); code != exitOK || !strings.Contains(out, "logged out") {
		t.Errorf("logout: exit %d: %s", code, out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the identity is still there: %v", err)
	}
	if code, out := runAdmin("logout", "--yes"); code != exitFailure || !strings.Contains(out, "not logged in") {
		t.Errorf("logout again: exit %d: %s", code, out)
	}
}

func TestAdminServersAreHostPort(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, text := range []string{"mgmt.example.net", ":8443"} {
		if code, out := runAdmin("--server", text, "status"); code != exitConfig || !strings.Contains(out, `server "`+text+`": want host:port`) {
			t.Errorf("%s: exit %d: %s", text, code, out)
		}
	}
}

func TestAdminTimeoutMustGiveTime(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, text := range []string{"0s", "-1s"} {
		if code, out := runAdmin("--timeout", text, "status"); code != exitConfig || !strings.Contains(out, "timeout "+text+": want more than 0") {
			t.Errorf("%s: exit %d: %s", text, code, out)
		}
	}
}
