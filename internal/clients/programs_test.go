//go:build clients

package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source is where a client program comes from: a Go program of a version, which
// is built once into the user's cache, or a Debian package.
type source struct {
	module, version, built, tags string
	debian                       string
}

// Versions that the tests are known to pass with.
const (
	xrayVersion    = "26.3.27"
	singboxVersion = "1.14.1"
	// singboxOld is of the last releases with the previous schema.
	singboxOld = "1.11.15"
)

var sources = map[string]source{
	"xray":         {module: "github.com/xtls/xray-core/main", version: "v1.260327.0", built: "main"},
	"sing-box":     {module: "github.com/sagernet/sing-box/cmd/sing-box", version: "v1.14.1", built: "sing-box", tags: "with_gvisor,with_quic,with_utls,with_clash_api"},
	"sing-box-old": {module: "github.com/sagernet/sing-box/cmd/sing-box", version: "v" + singboxOld, built: "sing-box", tags: "with_utls"},
	"v2ray":        {debian: "v2ray"},
	"curl":         {debian: "curl"},
	"chromium":     {debian: "chromium"},
	"certutil":     {debian: "libnss3-tools"},
}

// programs are the paths of the client programs, by name; nothing changes it
// once tests run.
var programs = map[string]string{}

// findPrograms finds, builds or installs every client.
func findPrograms(ctx context.Context) error {
	var errs []error
	var missing []string
	for name, s := range sources {
		path, err := s.find(ctx, name)
		switch {
		case err == nil:
			programs[name] = path
		case s.debian != "" && errors.Is(err, exec.ErrNotFound):
			missing = append(missing, s.debian)
		default:
			errs = append(errs, err)
		}
	}
	if len(missing) == 0 || len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := install(ctx, missing); err != nil {
		return err
	}
	return findPrograms(ctx)
}

func (s source) find(ctx context.Context, name string) (string, error) {
	if s.debian != "" {
		return exec.LookPath(name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "meshctl", "clients", strings.TrimSuffix(name, "-old")+"-"+s.version)
	path := filepath.Join(dir, s.built)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Printf("building %s %s\n", s.module, s.version)
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", "-tags="+s.tags, s.module+"@"+s.version)
	cmd.Dir = os.TempDir() // outside of our module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w\n%s", s.module, err, text)
	}
	return path, nil
}

// install gets Debian packages, as root, and otherwise says which are missing.
// The service that one of them brings along is not for us.
func install(ctx context.Context, packages []string) error {
	if os.Getuid() != 0 {
		return fmt.Errorf("missing: install the Debian packages %v", packages)
	}
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, text)
		}
	}
	return nil
}

// version is what a program says of itself: the first word that begins with a
// digit.
func version(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command(programs[program], "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	for w := range strings.FieldsSeq(string(out)) {
		if w[0] >= '0' && w[0] <= '9' {
			return w
		}
	}
	t.Fatalf("%s has no version: %s", program, out)
	return ""
}
