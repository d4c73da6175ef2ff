package cmd

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what OpenSSH hashes names with
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxKnownHosts bounds a known_hosts file.
const maxKnownHosts = 4 << 20

// hostKeys are the lines of known_hosts for the host of an SSH URL: those given,
// or those of the file. A line given may leave the host out.
func hostKeys(remote, file string, given []string) ([]string, error) {
	host := sshHost(remote)
	if len(given) > 0 {
		out := make([]string, len(given))
		for i, l := range given {
			out[i] = strings.TrimSpace(l)
			if kind, _, _ := strings.Cut(out[i], " "); strings.HasPrefix(kind, "ssh-") || strings.HasPrefix(kind, "ecdsa-") {
				out[i] = host + " " + out[i]
			}
			if _, names, _, _, _, err := ssh.ParseKnownHosts([]byte(out[i])); err != nil || !matchesHost(names, host) {
				return nil, usagef("--host-key: want a line of known_hosts for %s, or KIND KEY alone", host)
			}
		}
		return out, nil
	}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, unknownHost(host)
		}
		file = filepath.Join(home, ".ssh", "known_hosts")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, unknownHost(host)
		}
	}
	out, err := knownKeys(file, host)
	if err == nil && len(out) == 0 {
		err = unknownHost(host)
	}
	return out, err
}

func unknownHost(host string) error {
	scan := "ssh-keyscan " + host
	if h, port, err := net.SplitHostPort(host); err == nil {
		scan = "ssh-keyscan -p " + port + " " + h
	}
	return mesh.WithHint(fmt.Errorf("no key of host %s is known, and the first one met is not trusted: %w", host, mesh.ErrInvalid),
		scan+" > FILE, compare the key with what the operator of the host publishes, then give --known-hosts FILE")
}

// knownKeys are the lines of a known_hosts file that name the host, its name in
// place of a hash.
func knownKeys(file, host string) ([]string, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxKnownHosts {
		err = fmt.Errorf("%s: larger than %d bytes: %w", file, maxKnownHosts, mesh.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("--known-hosts: %w", err)
	}
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--known-hosts: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(rest)) {
		marker, names, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil || !matchesHost(names, host) {
			continue // a comment, an empty line, a kind of key that is not known here, or another host
		}
		out = append(out, strings.TrimSpace(strings.TrimPrefix("@"+marker+" ", "@ ")+host+" "+string(ssh.MarshalAuthorizedKey(key))))
	}
	return out, nil
}

// sshHost is the host of an SSH URL as known_hosts writes it.
func sshHost(remote string) string {
	host, port := "", ""
	if u, err := url.Parse(remote); err == nil && u.Scheme == "ssh" {
		host, port = u.Hostname(), u.Port()
	} else {
		host, _, _ = strings.Cut(remote, ":")
		host = host[strings.IndexByte(host, '@')+1:]
	}
	host = strings.ToLower(host)
	if port == "" || port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// matchesHost says whether the names of a known_hosts line are of the host.
func matchesHost(names []string, host string) bool {
	found := false
	for _, name := range names {
		if hash, ok := strings.CutPrefix(name, "|1|"); ok {
			found = found || hashedHost(hash, host)
			continue
		}
		pattern, not := strings.CutPrefix(strings.ToLower(name), "!")
		ok := pattern == host
		if !ok && !strings.ContainsAny(pattern, "[]") {
			ok, _ = path.Match(pattern, host) // a bad pattern matches nothing
		}
		if ok && not {
			return false
		}
		found = found || ok
	}
	return found
}

// hashedHost compares a name as ssh-keygen -H writes it: salt|HMAC-SHA1(salt, host).
func hashedHost(hash, host string) bool {
	salt, sum, _ := strings.Cut(hash, "|")
	key, err := base64.StdEncoding.DecodeString(salt)
	want, err2 := base64.StdEncoding.DecodeString(sum)
	if err != nil || err2 != nil {
		return false
	}
	mac := hmac.New(sha1.New, key)
	mac.Write([]byte(host)) // never fails
	return hmac.Equal(mac.Sum(nil), want)
}

// fingerprint is how people compare the key of a line of known_hosts.
func fingerprint(line string) string {
	_, names, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
	if err != nil {
		return line
	}
	return fmt.Sprintf("%s %s %s", listOf(names), key.Type(), ssh.FingerprintSHA256(key))
}
