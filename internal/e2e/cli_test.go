package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	var v struct{ Version, Go, Platform, Relay string }
	meshctl(t, "version", "-o", "json").decode(t, &v)
	if v.Version == "" || !strings.HasPrefix(v.Go, "go1.") || !strings.Contains(v.Platform, "/") || !strings.HasPrefix(v.Relay, "meshctl-relay/") {
		t.Errorf("got %+v", v)
	}
	meshctl(t, "version").want(t, exitOK, "meshctl "+v.Version)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	meshctl(t, "--help").want(t, exitOK, "Roles:", "Operate:", "This machine:")
	meshctl(t, "entri").refused(t, exitUsage, "entri")
	meshctl(t, "core", "jion").refused(t, exitUsage, "unknown command", "jion").hinted(t, "join")
	meshctl(t, "core", "run", "--nothing").refused(t, exitUsage, "--nothing").hinted(t, "--help")
	meshctl(t, "core", "run", "now").refused(t, exitUsage, "now")
	meshctl(t, "core", "run", "--drain", "soon").refused(t, exitUsage, "soon")
	meshctl(t, "run").refused(t, exitUsage, "role")
	meshctl(t, "run", "--role", "router").refused(t, exitUsage, "router").hinted(t, "mgmt, core and entry")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	script := meshctl(t, "completion", "bash").want(t, exitOK).stdout
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), bash, "-n")
	check.Stdin = strings.NewReader(script)
	if text, err := check.CombinedOutput(); err != nil || len(script) < 1000 {
		t.Errorf("a script of %d bytes: %v %s", len(script), err, text)
	}
	meshctl(t, "__complete", "run", "--role", "").want(t, exitOK, "mgmt\n", "core\n", "entry\n")
	m := sharedMesh(t)
	addDevice(t, m, "completed")
	meshctl(t, "__complete", "admin", "device", "show", "--socket", m.SocketPath(), "compl").want(t, exitOK, "completed")
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "core.yaml")
	if err := os.WriteFile(file, []byte("egress:\n  kind: forward\n  forward: 127.0.0.1:1\nconnections: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := command{args: []string{"config", "show", "--role", "core", "--config", file, "-o", "json"}, env: []string{"MESHCTL_CONNECTIONS=9"}}
	var got []struct {
		Key, Origin string
		Value       any
	}
	c.run(t).decode(t, &got)
	for key, want := range map[string]string{
		"egress.kind": "forward from file " + file + ":2", "connections": "9 from env MESHCTL_CONNECTIONS", "listen": ":8444 from default",
	} {
		if !slices.ContainsFunc(got, func(o struct {
			Key, Origin string
			Value       any
		}) bool {
			return o.Key == key && fmt.Sprint(o.Value, " from ", o.Origin) == want
		}) {
			t.Errorf("no %s is %s in %v", key, want, got)
		}
	}
	meshctl(t, "config", "show", "--role", "core", "--config", file, "--origin").want(t, exitOK, file+":3")
}

// A role run by its own command and by `run --role` is the same.
func TestRunRole(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	home := shortDir(t)
	dir := filepath.Join(home, "core")
	enrollOnly(t, coreToken(t, m, "by-role").Token, dir).want(t, exitOK)
	file := filepath.Join(home, "core.yaml")
	text := "dir: " + dir + "\nlisten: 127.0.0.1:0\nmetrics-listen: ''\ndrain: 1s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	meshctl(t, "run", "--role", "core", "--config", file, "--check").want(t, exitOK, "valid")
	b := command{args: []string{"run", "--role", "core", "--config", file}}.start(t)
	eventually(t, patience, "ready", func() error { return coreReady(t, m, "by-role") })
	b.signal(t, syscall.SIGTERM)
	if code := b.ended(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, b.out)
	}
	if err := os.WriteFile(file, []byte(text+"lisen: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	meshctl(t, "run", "--role", "core", "--config", file).refused(t, exitConfig, file+":5", `unknown key "lisen"`, `"listen"`)
}

// The commands of the README's walk-through do what it says.
func TestReadme(t *testing.T) {
	t.Parallel()
	files, forge, kubeconfig := t.TempDir(), bareRepository(t), kubeconfigOf(t, kubetest.New(t))
	// here is what the README says, with files, a repository and a cluster of this
	// test: a folder needs no login.
	here := func(args []string) []string {
		var out []string
		for i, a := range args {
			switch a = strings.Trim(a, "'"); {
			case a == ">", a == "|":
				return out
			case strings.HasSuffix(a, ".kubeconfig"):
				out = append(out, kubeconfig)
			case a == "deploy": // nothing runs pods here
				out = append(out, a, "--no-wait")
			case a == "--ssh-key" || i > 0 && args[i-1] == "--ssh-key":
			case strings.HasSuffix(a, ".key"), strings.HasSuffix(a, ".pem"):
				out = append(out, filepath.Join(files, a))
			case strings.HasPrefix(a, "git@"):
				out = append(out, forge)
			default:
				out = append(out, a)
			}
		}
		return out
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	b, _ := s.mustServe(t, "--addresses", "localhost:8443", "--founding-entry-addresses", "entry1.example.net:443")
	var at []string
	eventually(t, patience, "the server says where it is", func() error {
		if at = regexp.MustCompile(`msg=serving .*addr=(\S+)`).FindStringSubmatch(b.out.String()); at == nil {
			return errors.New("not yet")
		}
		return nil
	})
	ran, token := 0, ""
	for line := range strings.Lines(string(text)) {
		line, isCode := strings.CutPrefix(line, "    ")
		line, _, _ = strings.Cut(line, "#")
		for part := range strings.SplitSeq(line, "&&") {
			args := strings.Fields(part)
			if !isCode || len(args) < 3 || args[0] != "meshctl" || args[1] != "admin" && args[1] != "mgmt" || args[2] == "serve" {
				continue
			}
			ran++
			if args[2] == "login" { // on another machine, which knows the name
				command{args: []string{"admin", "login", "--token-file", secretFile(t, token), "--server", at[1]}, env: []string{"HOME=" + files}}.run(t).want(t, exitOK, "logged in as me")
				continue
			}
			c := command{args: append(here(args[1:]), "--socket", s.socket)}
			if args[1] == "mgmt" {
				c.args = append(c.args, "--dir", s.dir)
			}
			out := c.run(t).want(t, exitOK).stdout
			if i := strings.Index(out, "meshctl1."); i >= 0 {
				token = strings.Fields(out[i:])[0]
			}
		}
	}
	if ran < 8 {
		t.Errorf("the README has only %d commands", ran)
	}
	s.stop(t, b)
}

// kubeconfigOf is how a cluster is logged in to.
func kubeconfigOf(t *testing.T, s *kubetest.Server) string {
	t.Helper()
	name, config := "north", map[string]any{"apiVersion": "v1", "kind": "Config"}
	config["clusters"] = []any{map[string]any{"name": name, "cluster": map[string]any{"server": s.URL, "certificate-authority-data": []byte(s.CA)}}}
	config["users"] = []any{map[string]any{"name": name, "user": map[string]any{"token": s.Token}}}
	config["contexts"] = []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}}
	config["current-context"] = name
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return secretFile(t, string(text))
}

// Lists of programs keep their form: an empty one is [], and names are stable.
func TestOutputForPrograms(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	for _, args := range everyList() {
		if args[len(args)-1] != "json" {
			continue
		}
		var v any
		meshctl(t, append(args, "--socket", m.SocketPath())...).decode(t, &v)
		if v == nil {
			t.Errorf("%v prints null", args)
		}
	}
	var l admin.List[admin.MemberView]
	meshctl(t, "admin", "member", "list", "-o", "json", "--socket", m.SocketPath()).decode(t, &l)
	if len(l.Items) == 0 || l.Items[0].ID == "" {
		t.Errorf("got %+v", l)
	}
}
