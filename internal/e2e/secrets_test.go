package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// planted are the secrets of one mesh, by what they are.
type planted map[string][]byte

// text plants a secret as it is written, and the bytes it stands for.
func (p planted) text(what, secret string) {
	p[what] = []byte(secret)
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err == nil && len(raw) >= 16 {
		p.raw(what, raw)
	}
}

// raw plants bytes in the forms in which they might be printed.
func (p planted) raw(what string, b []byte) {
	p[what+", bytes"] = b
	p[what+", hex"] = []byte(hex.EncodeToString(b))
	p[what+", base64"] = []byte(base64.RawStdEncoding.EncodeToString(b))
	p[what+", base64url"] = []byte(base64.RawURLEncoding.EncodeToString(b))
}

func (p planted) token(t *testing.T, what, text string) {
	t.Helper()
	j, err := mesh.ParseJoinToken(text)
	if err != nil {
		t.Fatal(err)
	}
	p[what] = []byte(text)
	p.text("secret part of "+what, j.Secret.Reveal())
}

// keys plants every private key in the files below dir.
func (p planted) keys(t *testing.T, dir string) {
	t.Helper()
	found := 0
	eachFile(t, dir, func(path string, content []byte) {
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			if !strings.Contains(block.Type, "PRIVATE KEY") {
				continue
			}
			found++
			// Any of the lines in the middle tells it, wherever they are broken.
			body := base64.StdEncoding.EncodeToString(block.Bytes)
			p["key in "+path] = []byte(body[64:128])
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				if k, ok := key.(*ecdsa.PrivateKey); ok {
					d, err := k.Bytes()
					if err != nil {
						t.Fatal(err)
					}
					p.raw("key in "+path, d)
				}
			}
		}
	})
	if found == 0 {
		t.Errorf("no key in %s", dir)
	}
}

// absent checks that none of the secrets is in text.
func (p planted) absent(t *testing.T, where string, text []byte) {
	t.Helper()
	for what, secret := range p {
		if bytes.Contains(text, secret) {
			t.Errorf("%s holds %s", where, what)
		}
	}
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		t.Errorf("%s holds a private key", where)
	}
}

// thereStill leaves out that a file is gone: a part that runs replaces some.
func thereStill(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func eachFile(t *testing.T, dir string, see func(path string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return thereStill(err)
		}
		content, err := os.ReadFile(path)
		if err == nil {
			see(path, content)
		}
		return thereStill(err)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The client address that only debug lines may have, and the names.
const clientAddress = "203.0.113.7"

func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 2, Entries: 1, Configure: func(part string, config map[string]any) {
		debug(part, config)
		if part == "entry-a" {
			config["proxies"] = map[string]any{"trusted": []string{"127.0.0.0/8"}}
		}
	}})
	secrets := planted{}
	said := liveThrough(t, m, secrets)

	secrets.keys(t, dataDir(m.Mgmt))
	for _, p := range slices.Concat(m.Cores, m.Entries) {
		secrets.keys(t, dataDir(p))
	}
	passphrase, err := os.ReadFile(filepath.Join(m.Dir, "passphrase"))
	if err != nil {
		t.Fatal(err)
	}
	secrets.text("passphrase", strings.TrimSpace(string(passphrase)))
	key, err := os.ReadFile(filepath.Join(dataDir(m.Mgmt), "data.key"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["data key"] = bytes.TrimSpace(key)
	t.Logf("%d forms of secrets", len(secrets))

	eachFile(t, filepath.Join(m.Dir, "logs"), func(path string, content []byte) {
		secrets.absent(t, path, content)
		discreet(t, m, path, content)
	})
	for where, text := range said {
		secrets.absent(t, where, []byte(text))
	}
	eachFile(t, filepath.Join(dataDir(m.Mgmt), "etcd"), func(path string, content []byte) {
		secrets.absent(t, path, bytes.TrimRight(content, "\x00")) // most of it is room
	})
	for _, args := range everyList() {
		secrets.absent(t, strings.Join(args, " "), []byte(meshctl(t, append(args, "--socket", m.SocketPath())...).want(t, exitOK).stdout))
	}
	inProcesses(t, m, secrets)
	private(t, dataDir(m.Mgmt))
	for _, p := range slices.Concat(m.Cores, m.Entries) {
		private(t, dataDir(p))
	}
}

// liveThrough joins, serves and fails in many ways, plants the secrets it meets
// and returns what commands said that have no reason to say one.
func liveThrough(t *testing.T, m *dev.Mesh, secrets planted) map[string]string {
	t.Helper()
	said := map[string]string{}
	note := func(what string, o outcome) { said[what] = o.stdout + o.stderr }
	home := t.TempDir()

	core := coreToken(t, m, "secretive")
	secrets.token(t, "core's token", core.Token)
	b := command{args: []string{"core", "join", "--token", core.Token, "--dir", filepath.Join(home, "core"), "--listen", "127.0.0.1:0",
		"--metrics-listen", "", "--log-level", "debug", "--drain", "1s"}}.start(t)
	eventually(t, patience, "ready", func() error { return coreReady(t, m, "secretive") })
	secrets.keys(t, filepath.Join(home, "core"))
	t.Cleanup(func() { secrets.absent(t, "log of the core that joined by flag", []byte(b.out.String())) })

	wrong := changed(t, coreToken(t, m, "liar").Token, func(j *mesh.JoinToken) { j.Secret = mesh.NewSecret(32) })
	secrets.token(t, "wrong token", wrong)
	note("join with a wrong token", meshctl(t, "core", "join", "--token", wrong, "--enroll-only", "--log-level", "debug", "--dir", filepath.Join(home, "liar")).want(t, exitFailure))
	note("join with half a token", meshctl(t, "core", "join", "--token", wrong[:len(wrong)-9], "--enroll-only", "--dir", filepath.Join(home, "liar")).want(t, exitConfig))
	note("join with a used token", enrollOnly(t, core.Token, filepath.Join(home, "liar")).want(t, exitFailure))

	guest := call(t, m, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleAdmin, Grant: mesh.AdminOperator, Name: "guest"})
	secrets.token(t, "administrator's token", guest.Token)
	a := administrator{home}
	note("login", a.run(t, "login", "--token", guest.Token).want(t, exitOK))
	note("login again", a.run(t, "login", "--again", "--token", guest.Token).want(t, exitFailure))
	secrets.keys(t, filepath.Join(home, ".config"))

	c := addDevice(t, m, "diary")
	a.run(t, "device", "link", "diary", "--credentials").want(t, exitOK, c.link.Secret) // here it belongs
	echo := echoServer(t)
	if tun, err := c.over(t.Context(), headed(t, m.EntryAddresses[0], proxyV1), echo); err != nil || tun.echo(setupTime) != nil {
		t.Errorf("connect: %v", err)
	} else {
		_ = tun.Close() // served, which is all
	}
	links(t, m, a, secrets)
	for _, device := range []admin.DeviceLink{c.link, m.Link} {
		secrets.text("secret of "+device.User, device.Secret)
		user := mesh.Secret(device.Secret).UserID(device.Device)
		secrets.raw("user id of "+device.User, user[:])
		secrets["user id of "+device.User] = []byte(user.Reveal())
		secrets["Trojan key of "+device.User] = []byte(mesh.Secret(device.Secret).TrojanKey())
		secrets["credentials of "+device.User] = []byte(strings.TrimPrefix(client{link: device}.basic(), "Basic "))
	}
	guess := c
	guess.link.Secret = "a-guess-" + mesh.NewSecret(16).Reveal()
	secrets.text("wrong device secret", guess.link.Secret)
	if _, err := guess.over(t.Context(), headed(t, m.EntryAddresses[0], proxyV1), echo); err == nil {
		t.Error("a wrong secret was served")
	}
	note("a failed add", a.run(t, "device", "add", dev.MemberName, "diary", "--cell", dev.CellName).want(t, exitFailure))
	note("revoking", a.run(t, "device", "revoke", "diary", "--yes").want(t, exitOK))
	return said
}

// links plants the links of subscriptions, which are used, guessed and replaced.
func links(t *testing.T, m *dev.Mesh, a administrator, secrets planted) {
	t.Helper()
	secretOf := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	first := m.Subscription.Reveal()
	secrets.text("secret of a link", secretOf(first))
	for _, agent := range []string{"sing-box/1.14.1", "curl/8.0", "v2rayNG/1.10"} {
		if _, err := m.Subscribed(t.Context(), agent); err != nil {
			t.Errorf("%s: %v", agent, err)
		}
	}
	again := strings.TrimSpace(a.run(t, "device", "link", dev.DeviceName, "--replace", "-o", "name").want(t, exitOK).stdout)
	secrets.text("secret of another link", secretOf(again))
	eventually(t, patience, "the end of the first link", func() error {
		if _, err := m.Subscribed(t.Context(), "curl/8.0"); err == nil {
			return errors.New("it is still answered")
		}
		return nil
	})
	guess := mesh.NewSecret(24).Reveal()
	secrets.text("secret that was guessed", guess)
	c, err := m.SubscriptionClient(m.EntryAddresses[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Document(t.Context(), c, strings.Replace(first, secretOf(first), guess, 1), "curl/8.0"); err == nil {
		t.Error("a guess is answered")
	}
}

func everyList() [][]string {
	var out [][]string
	for _, noun := range []string{"member", "device", "cell", "core", "entry", "token", "cert", "administrator", "audit"} {
		for _, format := range []string{"json", "yaml", "table"} {
			out = append(out, []string{"admin", noun, "list", "-o", format})
		}
	}
	return append(out, []string{"admin", "events", "-o", "json"}, []string{"admin", "status", "-o", "json"}, []string{"admin", "config", "show", "-o", "json"},
		[]string{"admin", "device", "show", dev.DeviceName, "-o", "json"}, []string{"admin", "route", "show", dev.DeviceName, "-o", "json"},
		[]string{"admin", "cell", "show", dev.CellName, "-o", "json"}, []string{"admin", "member", "show", dev.MemberName, "-o", "json"},
		[]string{"admin", "sub", "status", "-o", "json"}, []string{"admin", "sub", "explain", dev.DeviceName, "-o", "json"}, []string{"admin", "cell", "ca", dev.CellName}, []string{"admin", "cert", "crl"})
}

// inProcesses looks at what any user of the machine may read of the parts.
func inProcesses(t *testing.T, m *dev.Mesh, secrets planted) {
	t.Helper()
	for _, p := range slices.Concat([]*dev.Process{m.Mgmt}, m.Cores, m.Entries) {
		for _, file := range []string{"cmdline", "environ"} {
			path := fmt.Sprintf("/proc/%d/%s", p.PID(), file)
			text, err := os.ReadFile(path)
			if err != nil || len(text) == 0 {
				t.Errorf("%s: %d bytes, %v", path, len(text), err)
			}
			secrets.absent(t, path+" of "+p.Name, text)
		}
	}
}

var debugLine = regexp.MustCompile(`(?m)^time=\S+ level=DEBUG .*\n`)

// discreet checks that no line above debug names a client, a member or a device.
func discreet(t *testing.T, m *dev.Mesh, path string, log []byte) {
	t.Helper()
	rest := debugLine.ReplaceAll(log, nil)
	if len(rest) == len(log) {
		t.Errorf("%s has no debug lines", path)
	}
	label, _, _ := strings.Cut(string(m.Link.ServerName), ".")
	for _, name := range []string{clientAddress, dev.MemberName, dev.DeviceName, "diary", label} {
		for line := range strings.Lines(string(rest)) {
			if strings.Contains(line, name) {
				t.Errorf("%s names %s: %s", path, name, line)
			}
		}
	}
}
