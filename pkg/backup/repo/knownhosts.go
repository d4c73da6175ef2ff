package repo

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// hosts holds a server to the keys that are known of it.
type hosts struct{ callback ssh.HostKeyCallback }

// readHosts reads lines of known_hosts. (The library reads files only; these
// lines are public.)
func readHosts(lines []string) (hosts, error) {
	f, err := os.CreateTemp("", "meshctl-known-hosts")
	if err != nil {
		return hosts{}, fmt.Errorf("known hosts: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return hosts{}, fmt.Errorf("known hosts: %w", err)
	}
	cb, err := knownhosts.New(f.Name())
	if err != nil {
		return hosts{}, faultf(ReasonHostKey, "known hosts: not readable: %w", mesh.ErrInvalid)
	}
	return hosts{cb}, nil
}

// check refuses a key that is not known, and says which it is.
func (h hosts) check(name string, remote net.Addr, key ssh.PublicKey) error {
	err := h.callback(name, remote, key)
	if err == nil {
		return nil
	}
	print := ssh.FingerprintSHA256(key)
	line := knownhosts.Line([]string{knownhosts.Normalize(name)}, key)
	f := &Fault{Reason: ReasonHostKey, Fingerprint: print}
	var other *knownhosts.KeyError
	if errors.As(err, &other) && len(other.Want) > 0 {
		f.Err = fmt.Errorf("the server %s shows another host key than the known one, %s %s: somebody may be in between: %w", name, key.Type(), print, mesh.ErrDenied)
		return mesh.WithHint(f, "if its key was changed on purpose, and "+print+" is the new one, the line is: "+line)
	}
	f.Err = fmt.Errorf("the host key of %s is not known, %s %s: %w", name, key.Type(), print, mesh.ErrDenied)
	return mesh.WithHint(f, "ask the server's operator whether "+print+" is its key, then add the line: "+line)
}

// algorithms are those of the known keys, so that a server with several shows
// one of them; nil when none is known.
func (h hosts) algorithms(addr string) []string {
	var known *knownhosts.KeyError
	if err := h.callback(addr, &net.TCPAddr{IP: net.IPv4zero}, noKey{}); !errors.As(err, &known) {
		return nil
	}
	var out []string
	for _, k := range known.Want {
		switch t := k.Key.Type(); t {
		case ssh.KeyAlgoRSA:
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			out = append(out, t)
		}
	}
	return out
}

// noKey is nobody's, to be told which ones would be right.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }
