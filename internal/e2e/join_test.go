package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// otherCell is a cell beside the demo's, for cores that come and go.
const otherCell = "other"

// otherCellOf makes the cell when it is not there yet; tests beside this one may
// make it in the same moment.
func otherCellOf(t *testing.T, m *dev.Mesh) string {
	t.Helper()
	_, err := tryCall(t, m, admin.CellAdd, admin.CellAddRequest{Name: otherCell, Suffix: "other.test"})
	if err != nil && !errors.Is(err, mesh.ErrExists) {
		t.Fatal(err)
	}
	return otherCell
}

// coreToken makes a token for a core of that name.
func coreToken(t *testing.T, m *dev.Mesh, name string) admin.TokenCreated {
	t.Helper()
	return call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: name, Member: dev.MemberName, Cell: otherCellOf(t, m)})
}

// changed returns the token with something else in it.
func changed(t *testing.T, token string, change func(*mesh.JoinToken)) string {
	t.Helper()
	j, err := mesh.ParseJoinToken(token)
	if err != nil {
		t.Fatal(err)
	}
	change(&j)
	return j.Encode().Reveal()
}

// secretFile writes a file for the eyes of its owner only.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func enrollOnly(t *testing.T, token, dir string) outcome {
	t.Helper()
	return meshctl(t, "core", "join", "--token-file", secretFile(t, token), "--enroll-only", "--dir", dir)
}

// empty says that a refused join has left no identity.
func empty(t *testing.T, dir string) {
	t.Helper()
	if got, err := filepath.Glob(filepath.Join(dir, "identity", "identity-*")); err != nil || len(got) > 0 {
		t.Errorf("an identity was left: %v, %v", got, err)
	}
}

func TestJoinRefusesWhatIsNoGoodToken(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	tests := []struct {
		name  string
		token func(t *testing.T) string
		code  int
		error string
		hint  string
	}{
		{"a wrong secret", func(t *testing.T) string {
			return changed(t, coreToken(t, m, "wrong").Token, func(j *mesh.JoinToken) { j.Secret = mesh.NewSecret(32) })
		}, exitFailure, "the join token is not valid", "token create"},
		{"an id that nobody made", func(t *testing.T) string {
			return changed(t, coreToken(t, m, "unknown").Token, func(j *mesh.JoinToken) { j.ID = mesh.NewTokenID() })
		}, exitFailure, "the join token is not valid", "token create"},
		{"an expired token", func(t *testing.T) string {
			token := call(t, m, admin.TokenCreate, admin.TokenCreateRequest{
				Role: mesh.RoleCore, Name: "late", Member: dev.MemberName, Cell: otherCellOf(t, m), Life: mesh.Duration(time.Second),
			})
			<-time.After(time.Until(token.Expires))
			return token.Token
		}, exitFailure, "the join token expired at", "token create"},
		{"a token that another key has used", func(t *testing.T) string {
			token := coreToken(t, m, "first").Token
			enrollOnly(t, token, filepath.Join(t.TempDir(), "first")).want(t, exitOK)
			return token
		}, exitFailure, "was already used by core/core-", "revoke that node"},
		{"a revoked token", func(t *testing.T) string {
			token := coreToken(t, m, "revoked")
			call(t, m, admin.TokenRevoke, admin.Ref{Ref: string(token.ID)})
			return token.Token
		}, exitFailure, "the join token was revoked", "token create"},
		{"a token cut short", func(t *testing.T) string {
			token := coreToken(t, m, "cut").Token
			return token[:len(token)-5]
		}, exitConfig, "damaged or cut short", "paste the whole token"},
		{"something that is no token", func(*testing.T) string { return "c0ffee" }, exitConfig, "join token", "paste the whole token"},
		{"a token for another role", func(t *testing.T) string {
			return call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "other-role"}).Token
		}, exitConfig, "is for the role entry, not core", "not used up"},
		{"an address where nobody answers", func(t *testing.T) string {
			return changed(t, coreToken(t, m, "nobody").Token, func(j *mesh.JoinToken) { j.Addresses = []string{"127.0.0.1:1"} })
		}, exitUnavailable, "no management server could be reached", "network"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "core")
			token := tt.token(t)
			o := enrollOnly(t, token, dir).refused(t, tt.code, tt.error).hinted(t, tt.hint)
			if secret := token[strings.LastIndex(token, ".")+1:]; strings.Contains(o.stdout+o.stderr, secret) {
				t.Error("the output has part of the token")
			}
			empty(t, dir)
		})
	}
}

func TestEntryRefusesAWrongToken(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	good := call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: "wrong-entry"}).Token
	run := func(token string, more ...string) outcome {
		return meshctl(t, append([]string{"entry", "run", "--dir", filepath.Join(t.TempDir(), "entry"), "--listen", "127.0.0.1:0",
			"--metrics-listen", "", "--limits-connections", "64", "--token-file", token}, more...)...)
	}
	wrong := changed(t, good, func(j *mesh.JoinToken) { j.Secret = mesh.NewSecret(32) })
	run(secretFile(t, wrong)).refused(t, exitFailure, "the join token is not valid").hinted(t, "token create")
	run(secretFile(t, coreToken(t, m, "for-a-core").Token)).refused(t, exitConfig, "is for the role core, not entry")
	run(filepath.Join(t.TempDir(), "absent")).refused(t, exitConfig, "token-file", "absent")
	open := secretFile(t, good)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	run(open).refused(t, exitConfig, open, "may be read by others").hinted(t, "chmod 600")
}

func TestTokenComesByFlagFileStandardInputOrEnvironment(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	for name, how := range map[string]func(token string) command{
		"flag":           func(token string) command { return command{args: []string{"--token", token}} },
		"file":           func(token string) command { return command{args: []string{"--token-file", secretFile(t, token)}} },
		"standard input": func(token string) command { return command{args: []string{"--token-file", "-"}, stdin: token + "\n"} },
		"environment":    func(token string) command { return command{env: []string{"MESHCTL_TOKEN=" + token}} },
	} {
		t.Run(name, func(t *testing.T) {
			label := "by-" + strings.ReplaceAll(name, " ", "-")
			c := how(coreToken(t, m, label).Token)
			dir := filepath.Join(t.TempDir(), "core")
			c.args = append([]string{"core", "join", "--enroll-only", "--dir", dir}, c.args...)
			c.run(t).want(t, exitOK, "joined as core-")
			if core := call(t, m, admin.CoreGet, admin.Ref{Ref: label}); core.State != mesh.CoreJoined {
				t.Errorf("the core is %s", core.State)
			}
		})
	}
	meshctl(t, "core", "join", "--enroll-only", "--dir", filepath.Join(t.TempDir(), "core")).
		refused(t, exitConfig, "a join token is needed").hinted(t, "token create --role core")
	meshctl(t, "core", "join", "--token", "a", "--token-file", "b").want(t, exitUsage, "token-file")
}

func TestJoinWithAnIdentityChangesNothing(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	dir := filepath.Join(t.TempDir(), "core")
	enrollOnly(t, coreToken(t, m, "twice").Token, dir).want(t, exitOK)
	before := snapshot(t, dir)
	unused := coreToken(t, m, "twice-again")
	enrollOnly(t, unused.Token, dir).want(t, exitOK, "joined already as core-", "nothing was changed")
	meshctl(t, "core", "join", "--enroll-only", "--dir", dir).want(t, exitOK, "nothing was changed")
	if after := snapshot(t, dir); after != before {
		t.Errorf("the folder was\n%sand is\n%s", before, after)
	}
	if s := call(t, m, admin.TokenGet, admin.Ref{Ref: string(unused.ID)}).State; s != mesh.TokenUnused {
		t.Errorf("the token is %s", s)
	}
	meshctl(t, "entry", "run", "--dir", dir, "--limits-connections", "64", "--listen", "127.0.0.1:0").
		refused(t, exitConfig, dir, "belongs to the role core, not entry")
}

// snapshot lists a folder's files with their sizes and times.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestJoinGoesOnWithoutTheToken(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	for _, name := range []string{"flag", "environment"} {
		t.Run(name, func(t *testing.T) {
			token := coreToken(t, m, "rerun-"+name).Token
			j, err := mesh.ParseJoinToken(token)
			if err != nil {
				t.Fatal(err)
			}
			c := command{args: []string{"core", "join", "--dir", filepath.Join(shortDir(t), "core"),
				"--listen", "127.0.0.1:0", "--metrics-listen", "", "--egress-allow", "127.0.0.2/32,127.0.0.3/32", "--drain", "1s"}}
			if name == "flag" {
				c.args = append(c.args, "--token", token)
			} else {
				c.env = []string{"MESHCTL_TOKEN=" + token, "MESHCTL_LOG_LEVEL=debug"}
			}
			b := c.start(t)
			eventually(t, patience, "ready", func() error { return coreReady(t, m, "rerun-"+name) })
			proc := fmt.Sprintf("/proc/%d/", b.Process.Pid)
			for _, file := range []string{"cmdline", "environ"} {
				text, err := os.ReadFile(proc + file)
				if err != nil {
					t.Fatal(err)
				}
				for _, secret := range []string{token, j.Secret.Reveal(), "MESHCTL_TOKEN"} {
					if strings.Contains(string(text), secret) {
						t.Errorf("%s has the token: %q", file, text)
					}
				}
				if file == "cmdline" && !strings.Contains(string(text), "core\x00run\x00") {
					t.Errorf("it runs as %q", text)
				}
			}
			b.signal(t, os.Interrupt)
			if code := b.ended(t); code != exitOK {
				t.Errorf("exit code %d\n%s", code, b.out)
			}
		})
	}
}

func TestOneTokenManyKeysOneNode(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	token := secretFile(t, coreToken(t, m, "race").Token)
	const tries = 8
	codes := make(chan int, tries)
	for range tries {
		dir := filepath.Join(t.TempDir(), "core")
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := command{args: []string{"core", "join", "--enroll-only", "--dir", dir, "--token-file", token}}.prepare(ctx, filepath.Dir(dir))
			_ = cmd.Run() // its exit code says how it went
			codes <- cmd.ProcessState.ExitCode()
		}()
	}
	won := 0
	for range tries {
		switch code := <-codes; code {
		case exitOK:
			won++
		case exitFailure:
		default:
			t.Errorf("exit code %d", code)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d got in with one token", won, tries)
	}
	if n := countCores(t, m, "race"); n != 1 {
		t.Errorf("%d cores were made", n)
	}
}

// countCores counts the cores whose name begins with prefix.
func countCores(t *testing.T, m *dev.Mesh, prefix string) int {
	t.Helper()
	n := 0
	for _, c := range call(t, m, admin.CoreList, admin.Page{Limit: 500}).Items {
		if strings.HasPrefix(c.Name, prefix) {
			n++
		}
	}
	return n
}
