//go:build kube

package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/internal/lab"
)

// host is a machine outside of the cluster, with at most one role of the mesh.
type host struct {
	name string
	addr netip.Addr
	dir  string
	// config is what config.yaml holds.
	config map[string]any

	lab.Namespace
	binary string   // meshctl
	args   []string // of the role
	health string   // host:port of /readyz, in the namespace
	role   *lab.Process
}

func (k *Kube) newHost(t testing.TB, name string, last byte, binary string) *host {
	t.Helper()
	h := &host{name: name, addr: hostAddr(last), dir: filepath.Join(k.Dir, name), binary: binary}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.Namespace, err = k.fabric.attach(name, h.addr); err != nil {
		t.Fatal(err)
	}
	return h
}

// at is the host's address with a port.
func (h *host) at(port int) string { return at(h.addr, port) }

func (h *host) file(name string) string { return filepath.Join(h.dir, name) }

// command is meshctl on this host. It ends with the tests, whatever way they end.
func (h *host) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Dir = h.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "HOME="+h.dir, "XDG_CONFIG_HOME="+h.dir, "XDG_STATE_HOME="+h.dir, "XDG_CACHE_HOME="+h.dir)
	return cmd
}

// run runs meshctl on this host and returns what it printed on both outputs.
func (h *host) run(ctx context.Context, args ...string) (string, error) {
	cmd := h.command(ctx, args...)
	var out []byte
	err := h.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		err = fmt.Errorf("meshctl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (h *host) writeConfig() error {
	config, err := yaml.Marshal(h.config)
	if err != nil {
		return err
	}
	return os.WriteFile(h.file("config.yaml"), config, 0o600)
}

// begin starts the role, and does not wait for it.
func (h *host) begin(t testing.TB) {
	t.Helper()
	err := h.writeConfig()
	if err == nil {
		cmd := h.command(context.Background(), append(slices.Clone(h.args), "--config", h.file("config.yaml"))...)
		h.role, err = h.Start(h.name, h.file(h.name+".log"), cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ready asks the role's /readyz.
func (h *host) ready(ctx context.Context) error {
	if !h.role.Running() {
		return fmt.Errorf("%s does not run", h.name)
	}
	_, err := h.get(ctx, "/readyz")
	return err
}

func (h *host) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.health+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: h.Dial}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", h.name, resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}
