//go:build clients

package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Names of the origin, which nobody but the cores can resolve: a name, and one of
// letters beyond ASCII as people write it.
const (
	originName   = "origin.test"
	originIDN    = "пример.test"
	originALabel = "xn--e1afmkfd.test" // of originIDN (RFC 5891)
)

// withNames makes a program that runs binary where these names are in /etc/hosts:
// in a mount namespace of its own, so that nothing changes on this machine.
func withNames(binary string) (string, error) {
	hosts := filepath.Join(filepath.Dir(binary), "hosts")
	text := fmt.Sprintf("%s localhost\n%[1]s %s %s\n", loopback, originName, originALabel)
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		return "", err
	}
	user := ""
	if os.Getuid() != 0 {
		user = "--map-root-user"
	}
	script := fmt.Sprintf("#!/bin/sh\nexec unshare %s --mount /bin/sh -c 'mount --bind %s /etc/hosts && exec %s \"$@\"' sh \"$@\"\n", user, hosts, binary)
	path := binary + "-with-names"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		return "", err
	}
	if text, err := exec.Command(path, "version").CombinedOutput(); err != nil {
		return "", fmt.Errorf("a mount namespace is needed: %w\n%s", err, text)
	}
	return path, nil
}
