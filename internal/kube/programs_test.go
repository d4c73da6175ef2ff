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

// kubeBinary returns Kubernetes in one program, and builds it unless the user's
// cache has it.
func kubeBinary(ctx context.Context) (string, error) {
	source, err := filepath.Abs(filepath.Join("..", "..", "test", "kube"))
	if err != nil {
		return "", err
	}
	flags := kubeFlags()
	sum := sha256.New()
	fmt.Fprintln(sum, flags)
	for _, file := range []string{"go.mod", "go.sum", "main.go", "etcd.go"} {
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
	dir := filepath.Join(cache, "meshctl", "kube", kubeVersion+"-"+hex.EncodeToString(sum.Sum(nil))[:12])
	out := filepath.Join(dir, "kube")
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := buildKube(ctx, source, out+".new", flags); err != nil {
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

// buildKube says how far it is.
func buildKube(ctx context.Context, source, out string, flags []string) error {
	fmt.Printf("building Kubernetes %s, some 2,000 packages: 10 to 20 minutes the first time\n", kubeVersion)
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-v", "-o", out}, append(flags, ".")...)...)
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
		return fmt.Errorf("build Kubernetes: %w\n%s", err, trouble)
	}
	fmt.Printf("  built after %v\n", time.Since(begin).Round(time.Second))
	return lines.Err()
}
