package adminsvc

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const maxCredential = 16 << 10

// publicSSH is the public half of an SSH private key, a line of authorized_keys.
// It returns ErrInvalid, which says nothing of the key itself.
func publicSSH(key mesh.Secret) (string, error) {
	bad := func(why, hint string) (string, error) {
		return "", mesh.WithHint(fmt.Errorf("admin: SSH key: %s: %w", why, mesh.ErrInvalid), hint)
	}
	const fresh = "make one for this alone: ssh-keygen -t ed25519 -N '' -f FILE"
	if len(key) > maxCredential {
		return bad("it is too long to be one", fresh)
	}
	signer, err := ssh.ParsePrivateKey([]byte(key.Reveal()))
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return bad("a passphrase protects it, which the servers could not ask for", fresh+"; it is kept sealed")
	}
	if err != nil {
		return bad("it is not a private key in the form of OpenSSH or PEM", fresh)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}

// checkRemoteToken refuses what cannot be a token. It returns ErrInvalid.
func checkRemoteToken(token mesh.Secret) error {
	text := token.Reveal()
	if text == "" || len(text) > maxCredential || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("admin: token: want one word of printable ASCII: %w", mesh.ErrInvalid)
	}
	return nil
}

// checkHostKey wants a line of known_hosts that SSH can read. It returns
// ErrInvalid.
func checkHostKey(line string) error {
	if _, _, _, _, _, err := ssh.ParseKnownHosts([]byte(line)); err != nil {
		return mesh.WithHint(fmt.Errorf("admin: host key: not a line of known_hosts: %w", mesh.ErrInvalid),
			"HOST KIND KEY, as `ssh-keyscan HOST` prints it; compare its fingerprint with what the operator of the host publishes")
	}
	return nil
}
