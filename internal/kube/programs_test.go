//go:build kube

package kube

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kubeVersion is the Kubernetes of test/kube/go.mod.
const kubeVersion = "1.34.4"

// debian are the programs that workers and their network need, with the packages
// they come in.
var debian = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "runc": "runc", "nft": "nftables", "ip": "iproute2",
	"conntrack": "conntrack", "nsenter": "util-linux", plugins + "/bridge": "containernetworking-plugins",
}

// plugins is where the network plugins of containerd are.
const plugins = "/usr/lib/cni"

// requirements installs what is missing on this machine, as root, and otherwise
// says exactly what that is.
func requirements(ctx context.Context) error {
	if os.Getuid() != 0 {
		return errors.New("root is needed, for network namespaces and workers")
	}
	if _, err := os.Stat(filepath.Join(groupRoot, "cpuset", "cpuset.cpus")); err != nil {
		return fmt.Errorf("control groups of version 1 are needed: %w", err)
	}
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	fmt.Println("installing", strings.Join(missing, " "))
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1") // nothing is started
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("missing: the Debian packages %v: apt-get %s: %w\n%s", missing, args[0], err, text)
		}
	}
	return nil
}

func missingPackages() (missing []string) {
	for program, pkg := range debian {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	return missing
}

// built is a program of a module under test, which the user's cache keeps.
type built struct {
	name, version, module string
	pkg                   string
	files                 []string // of the module
	flags                 []string
	says                  string // what it takes to build
}

// kubeBinary returns Kubernetes in one program.
func kubeBinary(ctx context.Context) (string, error) {
	return built{
		name: "kube", version: kubeVersion, module: "kube", pkg: ".", files: []string{"go.mod", "go.sum", "main.go", "etcd.go"}, flags: kubeFlags(),
		says: "Kubernetes " + kubeVersion + ", some 2,000 packages: 10 to 20 minutes the first time",
	}.program(ctx)
}

// program returns the file, and builds it unless the cache has it.
func (b built) program(ctx context.Context) (string, error) {
	source, err := filepath.Abs(filepath.Join("..", "..", "test", b.module))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, b.flags)
	for _, file := range b.files {
		text, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "meshctl", "kube", b.version+"-"+hex.EncodeToString(sum.Sum(nil))[:12])
	out := filepath.Join(dir, b.name)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := b.build(ctx, source, out+".new"); err != nil {
		return "", err
	}
	return out, os.Rename(out+".new", out)
}

// kubeFlags tell the programs their version, by which they judge each other.
func kubeFlags() []string {
	const variable = "-X k8s.io/component-base/version."
	major, rest, _ := strings.Cut(kubeVersion, ".")
	minor, _, _ := strings.Cut(rest, ".")
	link := strings.Join([]string{"-s -w", variable + "gitVersion=v" + kubeVersion, variable + "gitMajor=" + major,
		variable + "gitMinor=" + minor, variable + "gitTreeState=clean"}, " ")
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", link}
}

// build says how far it is.
func (b built) build(ctx context.Context, source, out string) error {
	fmt.Println("building", b.says)
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v", "-o", out}, append(b.flags, b.pkg)...)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	packages, trouble := 0, ""
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.ContainsAny(lines.Text(), " :") { // not the path of a package
			trouble += lines.Text() + "\n"
		}
		if packages++; packages%100 == 0 {
			fmt.Printf("  %4d packages, %v\n", packages, time.Since(begin).Round(time.Second))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", b.name, err, trouble)
	}
	fmt.Printf("  built after %v\n", time.Since(begin).Round(time.Second))
	return lines.Err()
}
