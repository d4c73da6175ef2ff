package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Commit stores the certificate that p asked for and returns the new identity.
// chain is DER, leaf first, root last. The first identity pins its root; a later
// one must chain to a root that is stored, stay in mesh and role, and, unless
// the stored one has ended, keep the id. The version before is kept until
// Settle. It returns ErrInvalid for a chain that does not fit.
func (f *Folder) Commit(p *Pending, chain [][]byte) (*Node, error) {
	old, err := f.Load()
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return nil, err
	}
	if p.Pin != [32]byte{} && (len(chain) == 0 || sha256.Sum256(chain[len(chain)-1]) != p.Pin) {
		return nil, fmt.Errorf("identity: commit: the root is not the one the token names: %w", mesh.ErrInvalid)
	}
	c, err := f.fit(p, chain, old)
	if err != nil {
		return nil, err
	}
	if err := f.store(c); err != nil {
		return nil, fmt.Errorf("identity: commit: %w", err)
	}
	return newNode(c), nil
}

func (f *Folder) fit(p *Pending, chain [][]byte, old *Node) (*credentials, error) {
	if old == nil {
		c, err := newCredentials(chain, p.key, nil)
		if err != nil {
			return nil, err
		}
		return c, c.validAt(f.now())
	}
	have := old.cur.Load()
	c, err := newCredentials(chain, p.key, have.roots)
	if err != nil {
		return nil, err
	}
	same := c.id.Mesh == have.id.Mesh && c.id.Role == have.id.Role
	if !same || c.id != have.id && have.validAt(f.now()) == nil {
		return nil, fmt.Errorf("identity: commit: the certificate is for %s, this node is %s: %w", c.id, have.id, mesh.ErrInvalid)
	}
	return c, c.validAt(f.now())
}

func (c *credentials) validAt(now time.Time) error {
	leaf := c.chain[0]
	if now.Before(leaf.NotBefore) {
		return notYet(leaf, now)
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("identity: the certificate ended at %s, this machine's clock says %s: %w", stamp(leaf.NotAfter), stamp(now), mesh.ErrInvalid)
	}
	return nil
}

// store writes the next version, then drops the pending key and all but the
// newest version before that reads well.
func (f *Folder) store(c *credentials) error {
	data, err := encodeCredentials(c)
	if err != nil {
		return err
	}
	versions, err := f.versions()
	if err != nil {
		return err
	}
	next := 1
	if len(versions) > 0 {
		next = versions[len(versions)-1] + 1
	}
	if err := writeFile(f.path(next), data, f.step); err != nil {
		return err
	}
	if err := f.remove(filepath.Join(f.dir, pendingFile)); err != nil {
		return err
	}
	if v, c, _ := f.newest(versions); c != nil {
		versions = slices.DeleteFunc(versions, func(x int) bool { return x == v })
	}
	return f.drop(versions)
}

// Settle drops all versions before the newest. Call it once the newest
// certificate has been accepted by a peer.
func (f *Folder) Settle() error {
	versions, err := f.versions()
	if err != nil || len(versions) < 2 {
		return err
	}
	if _, err := f.read(versions[len(versions)-1]); err != nil {
		return err
	}
	return f.drop(versions[:len(versions)-1])
}

func (f *Folder) drop(versions []int) error {
	for _, v := range versions {
		if err := f.remove(f.path(v)); err != nil {
			return err
		}
	}
	return syncDir(f.dir)
}

func (f *Folder) remove(path string) error {
	if f.step != nil {
		if err := f.step("remove " + filepath.Base(path)); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("identity: remove old file: %w", err)
	}
	return nil
}
