//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/internal/lab"
)

// Host is a machine of the lab: an address on its Internet, a folder, and at most
// one role that runs there.
type Host struct {
	Name string
	Addr netip.Addr
	// Private is its address on the servers' private network; management servers
	// and the neighbour have one.
	Private netip.Addr
	Dir     string // config.yaml, log, data
	// Config is what config.yaml holds; changes count from the next Start on.
	Config map[string]any

	ns     lab.Namespace
	binary string
	args   []string // of the role
	health string   // host:port of /readyz, in the namespace
	role   *lab.Process
	frozen bool
}

// At is the host's address with a port.
func (h *Host) At(port int) string { return netip.AddrPortFrom(h.Addr, uint16(port)).String() }

// Inside is the host's private address with a port.
func (h *Host) Inside(port int) string { return netip.AddrPortFrom(h.Private, uint16(port)).String() }

// addrs are all its addresses.
func (h *Host) addrs() []netip.Addr {
	if h.Private.IsValid() {
		return []netip.Addr{h.Addr, h.Private}
	}
	return []netip.Addr{h.Addr}
}

// Data is the role's data folder.
func (h *Host) Data() string { return filepath.Join(h.Dir, "data") }

// Log is the file that the role logs to.
func (h *Host) Log() string { return filepath.Join(h.Dir, "log") }

// Dial opens a TCP connection from this host.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return h.ns.Dial(ctx, "tcp", addr)
}

// Command is the meshctl binary on this host, for as long as ctx lasts. Start it
// with Run.
func (h *Host) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Dir = h.Dir
	cmd.Env = append(os.Environ(), "HOME="+h.Dir, "XDG_CONFIG_HOME="+h.Dir)
	return cmd
}

// Run runs a program on this host and returns what it printed on both outputs.
func (h *Host) Run(cmd *exec.Cmd) (string, error) {
	var out []byte
	err := h.ns.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	return string(out), err
}

// Start starts the host's role, which does not run, and does not wait for it.
func (h *Host) Start(t testing.TB) {
	t.Helper()
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
}

func (h *Host) start() error {
	if err := h.writeConfig(); err != nil {
		return err
	}
	cmd := h.Command(context.Background(), append(slices.Clone(h.args), "--config", h.configFile())...)
	role, err := h.ns.Start(h.Name, h.Log(), cmd)
	if err != nil {
		return err
	}
	h.role = role
	return nil
}

func (h *Host) writeConfig() error {
	config, err := yaml.Marshal(h.Config)
	if err != nil {
		return err
	}
	return os.WriteFile(h.configFile(), config, 0o600)
}

func (h *Host) configFile() string { return filepath.Join(h.Dir, "config.yaml") }

// Running says whether the role's process is there, frozen or not.
func (h *Host) Running() bool { return h.role.Running() }

// Kill ends the role with SIGKILL: the host's kernel tells its peers at once.
func (h *Host) Kill(t testing.TB) {
	t.Helper()
	h.signal(t, syscall.SIGKILL)
	<-h.role.Done
	h.frozen = false
}

// Stop ends the role with SIGTERM and returns how long that took.
func (h *Host) Stop(t testing.TB, limit time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	h.signal(t, syscall.SIGTERM)
	select {
	case <-h.role.Done:
	case <-time.After(limit):
		t.Fatalf("%s does not end within %v\n%s", h.Name, limit, h.role.Tail(15))
	}
	return time.Since(begin)
}

// Freeze stops the role as it stands (SIGSTOP): its kernel still answers for it,
// its connections stay open, and it says nothing.
func (h *Host) Freeze(t testing.TB) {
	t.Helper()
	h.signal(t, syscall.SIGSTOP)
	h.frozen = true
}

// Thaw lets a frozen role go on.
func (h *Host) Thaw(t testing.TB) {
	t.Helper()
	h.signal(t, syscall.SIGCONT)
	h.frozen = false
}

func (h *Host) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := h.role.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal %s: %v", h.Name, err)
	}
}

// Ready asks the role's /readyz.
func (h *Host) Ready(ctx context.Context) error {
	if !h.Running() {
		return fmt.Errorf("%s does not run", h.Name)
	}
	_, err := h.get(ctx, "/readyz")
	return err
}

// Metric is the sum of a metric over all its labels; name may be its end.
func (h *Host) Metric(t testing.TB, name string) (sum float64) {
	t.Helper()
	page, err := h.get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		key, _, _ = strings.Cut(key, "{")
		if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasSuffix(key, name) {
			sum += v
		}
	}
	return sum
}

func (h *Host) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return h.Dial(ctx, addr) }}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.health+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", h.Name, resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}
