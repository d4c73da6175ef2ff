package e2e

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// administrator is a person at a terminal elsewhere, with a home of their own.
type administrator struct{ home string }

// newAdministrator logs in with a fresh token for that role.
func newAdministrator(t *testing.T, m *dev.Mesh, name string, role mesh.AdminRole) administrator {
	t.Helper()
	a := administrator{t.TempDir()}
	token := call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: role, Name: name})
	a.run(t, "login", "--token-file", secretFile(t, token.Token)).want(t, exitOK, "logged in as "+name)
	return a
}

func (a administrator) command(args ...string) command {
	return command{args: append([]string{"admin"}, args...), env: []string{"HOME=" + a.home}}
}

func (a administrator) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return a.command(args...).run(t)
}

func TestAdministratorsOverTheNetwork(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	owner := newAdministrator(t, m, "olga", mesh.AdminOwner)
	operator := newAdministrator(t, m, "peter", mesh.AdminOperator)
	auditor := newAdministrator(t, m, "anna", mesh.AdminAuditor)

	t.Run("an auditor looks and changes nothing", func(t *testing.T) {
		auditor.run(t, "status").want(t, exitOK, "Cores:")
		auditor.run(t, "device", "list", "-o", "json").want(t, exitOK)
		auditor.run(t, "audit", "list").want(t, exitOK, "token.create")
		auditor.run(t, "member", "add", "Nobody").refused(t, exitFailure, "needs the role operator", "has auditor").hinted(t, "--role operator")
		auditor.run(t, "device", "link", dev.DeviceName).refused(t, exitFailure, "needs the role operator")
		auditor.run(t, "token", "create", "--role", "core", "--member", dev.MemberName, "--cell", dev.CellName).refused(t, exitFailure, "needs the role operator")
	})
	t.Run("an operator changes, and makes no administrators", func(t *testing.T) {
		operator.run(t, "member", "add", "Petra").want(t, exitOK, "Petra")
		operator.run(t, "token", "create", "--role", "entry", "--name", "spare").want(t, exitOK, "meshctl1.")
		operator.run(t, "token", "create", "--role", "admin", "--grant", "auditor").refused(t, exitFailure, "owner")
		operator.run(t, "administrator", "set", "peter", "--role", "owner").refused(t, exitFailure, "needs the role owner")
		operator.run(t, "config", "set", "staleIfError=1h").refused(t, exitFailure, "needs the role owner")
	})
	t.Run("an owner does both, and it is on record", func(t *testing.T) {
		owner.run(t, "token", "create", "--role", "admin", "--grant", "auditor", "--name", "guest").want(t, exitOK, "meshctl1.")
		owner.run(t, "administrator", "set", "anna", "--role", "operator").want(t, exitOK)
		auditor.run(t, "member", "add", "Annabel").want(t, exitOK) // at once, without a new certificate
		anna := call(t, m, admin.AdminGet, admin.Ref{Ref: "anna"})
		for _, r := range call(t, m, admin.AuditList, admin.AuditListRequest{Actor: "admin:" + string(anna.ID)}).Items {
			if r.Action == "member.add" {
				return
			}
		}
		t.Error("what anna did is not on record")
	})
	t.Run("one who is revoked is refused at once", func(t *testing.T) {
		guest := newAdministrator(t, m, "vera", mesh.AdminOwner)
		follow := guest.command("events", "--follow").start(t)
		says(t, follow, "\n")
		owner.run(t, "administrator", "revoke", "vera", "--yes").want(t, exitOK, "revoked")
		guest.run(t, "status").refused(t, exitFailure, "denied").hinted(t, "admin login")
		if code := follow.ended(t); code != exitFailure {
			t.Errorf("following events ends with %d: %s", code, follow.out)
		}
		guest.run(t, "login").want(t, exitOK, "already") // a revoked one cannot know
	})
	t.Run("what cannot be undone is not done unasked", func(t *testing.T) {
		owner.run(t, "administrator", "revoke", "peter").refused(t, exitUsage, "confirmation").hinted(t, "--yes")
	})
}

func TestLoginFilesAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	a := newAdministrator(t, m, "fiona", mesh.AdminAuditor)
	private(t, filepath.Join(a.home, ".config", "meshctl"))
	key, err := filepath.Glob(filepath.Join(a.home, ".config", "meshctl", "identity", "identity-*.pem"))
	if err != nil || len(key) != 1 {
		t.Fatalf("identity: %v, %v", key, err)
	}
	if err := os.Chmod(key[0], 0o644); err != nil {
		t.Fatal(err)
	}
	a.run(t, "status").refused(t, exitConfig, key[0], "0644").hinted(t, "chmod 0600")
	meshctl(t, "admin", "status").refused(t, exitFailure, "not logged in").hinted(t, "admin login")
	meshctl(t, "admin", "login").refused(t, exitUsage, "no token").hinted(t, "--token-file")
}

// private checks that nobody but the owner may read dir and what is below it.
func private(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return thereStill(err)
		}
		info, err := d.Info()
		if err != nil {
			return thereStill(err)
		}
		files++
		if m := info.Mode(); m.Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, m)
		}
		return nil
	})
	if err != nil || files < 2 {
		t.Errorf("%s: %d files, %v", dir, files, err)
	}
}

func TestNoServerIsExitCode69(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	a := newAdministrator(t, m, "lena", mesh.AdminAuditor)
	a.run(t, "status", "--server", "127.0.0.1:1").refused(t, exitUnavailable, "management server 127.0.0.1:1 does not answer").hinted(t, "--server")
	socket := filepath.Join(shortDir(t), "none.sock")
	meshctl(t, "admin", "status", "--socket", socket).refused(t, exitUnavailable, "no management server answers at "+socket).hinted(t, "mgmt serve")
	mute := serve(t, "127.0.0.1:0", func(c *net.TCPConn) {
		_, _ = io.Copy(io.Discard, c) // takes all and says nothing
	})
	a.run(t, "status", "--timeout", "1s", "--server", mute).refused(t, exitUnavailable, mute)
}
