package mgmt

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// The keyring of gossip is in the store, each key sealed in a blob of its own. A
// server that is removed takes the key with it, so then a new one comes, in steps
// during which everybody understands everybody:
//
//	gossip=A ─removal─▶ gossip=A next=B ─all have B─▶ gossip=B old=A ─all use B─▶ gossip=B
//
// A server that is away reads the keyring of now when it is back. One of the
// version before this knows blobGossip alone, and is deaf for a moment.
const (
	blobGossip     = "gossip"      // encrypts
	blobGossipNext = "gossip.next" // understood already
	blobGossipOld  = "gossip.old"  // understood still
)

// turnPatience is how long a step waits for a server that is there and does not
// say that it has the keyring.
const turnPatience = 30 * time.Second

// keyring is gossip's, the key that encrypts first.
type keyring struct {
	keys  [][]byte
	next  bool // a key is coming
	old   bool // a key is going
	since time.Time
}

// mark tells one keyring from another without telling what is in it.
func (k keyring) mark() string {
	h := sha256.New()
	h.Write([]byte("meshctl gossip keyring"))
	for _, key := range k.keys {
		h.Write(key)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// ring is the keyring of now: during founding first the key that those who are
// not in yet have.
func (c *cluster) ring(ctx context.Context) (keyring, error) {
	k, err := c.storedRing(ctx)
	if errors.Is(err, mesh.ErrNotFound) {
		if err = c.firstGossipKey(ctx); err == nil {
			k, err = c.storedRing(ctx)
		}
	}
	if err != nil {
		return keyring{}, err
	}
	open, err := c.founding(ctx)
	if err != nil {
		return keyring{}, err
	}
	if open && c.secret != "" {
		k.keys = append([][]byte{bootstrapGossipKey(c.secret)}, k.keys...)
	}
	return k, nil
}

// storedRing is the keyring in the store; ErrNotFound when there is none.
func (c *cluster) storedRing(ctx context.Context) (k keyring, err error) {
	_, err = c.r.store.View(ctx, func(tx *store.Tx) error {
		k, err = c.ringIn(tx)
		return err
	})
	return k, err
}

func (c *cluster) ringIn(tx *store.Tx) (keyring, error) {
	var k keyring
	for _, name := range []string{blobGossip, blobGossipNext, blobGossipOld} {
		b, err := store.Get(tx, c.r.store.CA, name)
		if errors.Is(err, mesh.ErrNotFound) && name != blobGossip {
			continue
		}
		if err != nil {
			return k, err
		}
		key, err := c.openKey(name, b)
		if err != nil {
			return k, err
		}
		k.keys = append(k.keys, key)
		k.next, k.old = k.next || name == blobGossipNext, k.old || name == blobGossipOld
		if b.Created.After(k.since) {
			k.since = b.Created
		}
	}
	return k, nil
}

func (c *cluster) openKey(name string, b store.Blob) ([]byte, error) {
	secret, err := c.r.store.Unseal(store.BlobPlace(name), mesh.Sealed(b.Data))
	if err != nil {
		return nil, err
	}
	key, err := base64.RawURLEncoding.DecodeString(secret.Reveal())
	if err != nil || len(key) != gossip.KeySize {
		return nil, fmt.Errorf("mgmt: read gossip key: it is damaged: %w", mesh.ErrInvalid)
	}
	return key, nil
}

// putKey writes a key of the ring, in place of the one that is there.
func (c *cluster) putKey(tx *store.Tx, name string, key mesh.Secret) error {
	sealed, err := c.r.store.Seal(store.BlobPlace(name), key)
	if err != nil {
		return err
	}
	b := store.Blob{Data: []byte(sealed), Created: c.r.now().UTC()}
	err = store.Update(tx, c.r.store.CA, name, func(x *store.Blob) error {
		*x = b
		return nil
	})
	if errors.Is(err, mesh.ErrNotFound) {
		err = store.Create(tx, c.r.store.CA, name, b)
	}
	return err
}

// firstGossipKey makes the mesh's key of gossip, unless another was faster.
func (c *cluster) firstGossipKey(ctx context.Context) error {
	defer c.r.store.Sealing()()
	_, err := c.change(ctx, "gossip.key", func(tx *store.Tx) error {
		_, err := store.Get(tx, c.r.store.CA, blobGossip)
		if !errors.Is(err, mesh.ErrNotFound) {
			return errors.Join(err, errAgain)
		}
		return c.putKey(tx, blobGossip, mesh.NewSecret(gossip.KeySize))
	})
	if errors.Is(err, errAgain) {
		return nil
	}
	return err
}

// newGossipKey lets a new key come, which who was removed does not have: it is
// written when his etcd is out already. A mesh that never gossiped has no key.
func (c *cluster) newGossipKey(tx *store.Tx) error {
	_, err := store.Get(tx, c.r.store.CA, blobGossip)
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.putKey(tx, blobGossipNext, mesh.NewSecret(gossip.KeySize))
}

// turnRing takes the next step of a new key once all who are there have made the
// one before, and says whether a key is on the way.
func (c *cluster) turnRing(ctx context.Context) (bool, error) {
	ring, err := c.storedRing(ctx)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		return false, nil
	case err != nil || !ring.next && !ring.old:
		return false, err
	case !c.allHave(ring):
		return true, nil
	}
	defer c.r.store.Sealing()()
	_, err = c.change(ctx, "gossip.turn", func(tx *store.Tx) error {
		now, err := c.ringIn(tx)
		switch {
		case err != nil:
			return err
		case now.mark() != ring.mark():
			return errAgain
		case !now.next:
			return store.Delete(tx, c.r.store.CA, blobGossipOld)
		}
		encoded := func(i int) mesh.Secret { return mesh.Secret(base64.RawURLEncoding.EncodeToString(now.keys[i])) }
		return errors.Join(
			c.putKey(tx, blobGossipOld, encoded(0)),
			c.putKey(tx, blobGossip, encoded(1)),
			store.Delete(tx, c.r.store.CA, blobGossipNext))
	})
	if errors.Is(err, errAgain) {
		return true, nil
	}
	if err == nil && !ring.next {
		c.log.Info("gossip key replaced")
	}
	return ring.next, err
}

// allHave says whether every server that is there has the keyring. What they say
// of themselves can be a lie of who was removed; that only makes a step early.
func (c *cluster) allHave(k keyring) bool {
	if c.r.now().Sub(k.since) > turnPatience {
		return true
	}
	known, mark := c.lastKnown(), k.mark()
	for _, m := range c.gossip.Members() {
		if s, ok := known[m.Server]; ok && s.State == mesh.ServerMember && m.Mesh == c.r.keys.Mesh && m.Ring != mark {
			return false
		}
	}
	return true
}
