package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// probe is a request of somebody who reached a core's TLS, and what a plain web
// server would answer.
type probe struct {
	name   string
	method string
	target func(c client, m *dev.Mesh) string
	user   func(c client) string // user:secret, "" for none
	status int
	header string // a header that must be there
}

func wrongSecret(c client) string { return c.link.User + ":" + mesh.NewSecret(16).Reveal() }
func nobody(client) string        { return "" }

func originOf(_ client, m *dev.Mesh) string { return m.Origin.URL() }
func originHostPort(_ client, m *dev.Mesh) string {
	return strings.Trim(m.Origin.URL()[len("http://"):], "/")
}
func hidden(c client, _ *dev.Mesh) string { return string(c.link.HiddenHost) + ":443" }

func probes(other client) []probe {
	return []probe{
		{"a page with a wrong secret gives the static page", "GET", originOf, wrongSecret, http.StatusOK, "Content-Type"},
		{"a page without credentials gives the static page", "GET", originOf, nobody, http.StatusOK, "Content-Type"},
		{"a page with the credentials of another device", "GET", originOf, func(client) string { return other.link.User + ":" + other.link.Secret }, http.StatusOK, "Content-Type"},
		{"a tunnel with a wrong secret is not allowed", "CONNECT", originHostPort, wrongSecret, http.StatusMethodNotAllowed, "Allow"},
		{"a tunnel without credentials is not allowed", "CONNECT", originHostPort, nobody, http.StatusMethodNotAllowed, "Allow"},
		{"a tunnel to the hidden host asks for credentials", "CONNECT", hidden, nobody, http.StatusProxyAuthRequired, "Proxy-Authenticate"},
		{"the hidden host of another device is nothing", "CONNECT", func(_ client, m *dev.Mesh) string { return hidden(other, m) }, nobody, http.StatusMethodNotAllowed, "Allow"},
	}
}

func TestWithoutCredentialsACoreIsAWebServer(t *testing.T) {
	t.Parallel()
	m := sharedMesh(t)
	c, other := addDevice(t, m, "probed"), addDevice(t, m, "other")
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Log("no curl on this machine: the built-in client alone")
	}
	for _, p := range probes(other) {
		t.Run(p.name, func(t *testing.T) {
			p.builtIn(t, m, c)
			if curl != "" {
				p.byCurl(t, curl, m, c)
			}
		})
	}
}

func (p probe) builtIn(t *testing.T, m *dev.Mesh, c client) {
	t.Helper()
	raw, err := dial(t.Context(), m.EntryAddresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	target := p.target(c, m)
	host := strings.Trim(strings.TrimPrefix(target, "http://"), "/")
	head := p.method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	if user, secret, ok := strings.Cut(p.user(c), ":"); ok {
		as := client{link: admin.DeviceLink{User: user, Secret: secret}}
		head += "Proxy-Authorization: " + as.basic() + "\r\n"
	}
	answer, err := c.request(t.Context(), raw, head+"\r\n")
	resp, isStatus := errors.AsType[statusError](err)
	switch {
	case p.status == http.StatusOK && err == nil:
		if page, err := io.ReadAll(answer); err != nil || !bytes.Contains(page, []byte("<html")) || bytes.Contains(page, []byte(dev.Page)) {
			t.Errorf("built-in client: %q, %v", page, err)
		}
	case !isStatus:
		t.Errorf("built-in client: %v", err)
	case resp.StatusCode != p.status || resp.Header.Get(p.header) == "":
		t.Errorf("built-in client: %s with headers %v, want %d with %s", resp.Status, resp.Header, p.status, p.header)
	default:
		if body, err := io.ReadAll(resp.Body); err != nil || bytes.Contains(body, []byte("meshctl")) {
			t.Errorf("the answer tells what it is: %q, %v", body, err)
		}
	}
}

func (p probe) byCurl(t *testing.T, curl string, m *dev.Mesh, c client) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.EntryAddresses[0])
	if err != nil {
		t.Fatal(err)
	}
	name, body := string(c.link.ServerName), filepath.Join(t.TempDir(), "body")
	url := p.target(c, m)
	if p.method == "CONNECT" {
		url = "https://" + url + "/"
	}
	config := []string{
		"silent", "max-time = 10", "url = " + url, "output = " + body,
		"proxy = https://" + name + ":" + port, "resolve = " + name + ":" + port + ":" + host, "proxy-cacert = " + m.CAFile(),
		`write-out = "%{http_code} %{http_connect}"`,
	}
	if user := p.user(c); user != "" {
		config = append(config, "proxy-user = "+user)
	}
	cmd := exec.CommandContext(t.Context(), curl, "--disable", "--config", "-")
	cmd.Stdin = strings.NewReader(strings.Join(config, "\n") + "\n")
	out, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok { // a refused tunnel is exit code 56
		t.Fatal(err)
	}
	want := fmt.Sprintf("%03d 000", p.status)
	if p.method == "CONNECT" {
		want = fmt.Sprintf("000 %03d", p.status)
	}
	if string(out) != want {
		t.Errorf("curl: %q, want %q", out, want)
	}
	if page, err := os.ReadFile(body); err == nil && string(page) == dev.Page {
		t.Error("curl was given the destination's page")
	}
}
