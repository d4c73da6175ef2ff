package mgmt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Kit is what its operator needs to bring a mesh back after all of its servers
// are gone. No secret is in it.
type Kit struct {
	Mesh      mesh.ID   `json:"mesh"`
	Root      string    `json:"rootSHA256"` // of the root certificate's DER, hexadecimal
	Founded   time.Time `json:"founded"`
	RootEnds  time.Time `json:"rootEnds"`
	Addresses []string  `json:"addresses"`           // host:port under which nodes look for management
	Remotes   []string  `json:"remotes,omitzero"`    // where backups are
	Openers   []string  `json:"recipients,omitzero"` // who can open them
	// Unknown says why the last two are not known; "" when they are.
	Unknown string `json:"unknown,omitzero"`
}

// ReadKit reads from a data folder what is in it of the kit.
func ReadKit(dir string) (Kit, error) {
	f := &folder{dir: dir}
	if known, err := f.has(fileServer); err != nil {
		return Kit{}, err
	} else if !known {
		return Kit{}, mesh.WithHint(fmt.Errorf("mgmt: recovery kit: no mesh has been founded in %s: %w", dir, mesh.ErrNotFound),
			"name the data folder of a server with --dir or --config")
	}
	var server serverFile
	var k Kit
	err := errors.Join(f.read(fileServer, server.parse), f.read(fileRootCert, func(b []byte) error {
		root, err := ca.ParseCert(b)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(root.Raw)
		k.Root, k.RootEnds, k.Founded = hex.EncodeToString(sum[:]), root.NotAfter.UTC(), root.NotBefore.Add(mesh.Backdate).UTC()
		return nil
	}))
	k.Mesh = server.Mesh
	return k, err
}

// Print writes the kit as a page to put on paper.
func (k Kit) Print(w io.Writer) error {
	list := func(words []string) string {
		if len(words) == 0 {
			return "none"
		}
		return strings.Join(words, "\n              ")
	}
	remotes, openers, from := list(k.Remotes), list(k.Openers), "REMOTE"
	if k.Unknown != "" {
		remotes, openers = k.Unknown, k.Unknown
	}
	if len(k.Remotes) > 0 {
		_, from, _ = strings.Cut(k.Remotes[0], " ")
	}
	_, err := fmt.Fprintf(w, `RECOVERY KIT of a meshctl network. Print it; there is no secret on it.

Mesh:         %s
Root SHA-256: %s
Founded:      %s   Root ends: %s
Addresses:    %s
Backups:      %s
Opened by:    %s

Keep apart from the servers, each in two places:
[ ] this page
[ ] the root passphrase, on paper or in a password manager; without it nothing is restored
[ ] an age identity (or its passphrase) that opens the backups; without it there is no backup
[ ] a way to read a remote of the backups: its address and a key or token of your own

When all servers are gone: an empty machine, this program, and

    meshctl mgmt restore --from %s --identity FILE \
      --root %s

Nodes look for management at the addresses above: let the new server have one of them.
`, k.Mesh, k.Root, k.Founded.Format(time.DateOnly), k.RootEnds.Format(time.DateOnly), list(k.Addresses), remotes, openers, from, k.Root)
	return err
}
