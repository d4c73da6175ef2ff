package identity

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Node is this process's own identity: key, certificate and the roots it
// trusts. It is safe for concurrent use; Replace swaps all of it at once.
type Node struct{ cur atomic.Pointer[credentials] }

type credentials struct {
	id    mesh.Identity
	cert  tls.Certificate
	chain []*x509.Certificate // leaf first, root last
	roots []*x509.Certificate
	pool  *x509.CertPool
}

// NewNode makes a node of a key and its chain (DER, leaf first, root last). The
// certificate may have ended: what it opens is for others to judge. It returns
// ErrInvalid when key, chain and id do not belong together.
func NewNode(id mesh.Identity, chain [][]byte, key crypto.Signer) (*Node, error) {
	c, err := newCredentials(chain, key, nil)
	if err != nil {
		return nil, err
	}
	if c.id != id {
		return nil, fmt.Errorf("identity: certificate is for %s, not %s: %w", c.id.Node(), id.Node(), mesh.ErrInvalid)
	}
	return newNode(c), nil
}

func newNode(c *credentials) *Node {
	n := new(Node)
	n.cur.Store(c)
	return n
}

// Identity is the node's own, from its certificate.
func (n *Node) Identity() mesh.Identity { return n.cur.Load().id }

// Leaf is the current certificate.
func (n *Node) Leaf() *x509.Certificate { return n.cur.Load().chain[0] }

// Chain is the current certificate and those above it in DER, root last.
func (n *Node) Chain() [][]byte { return slices.Clone(n.cur.Load().cert.Certificate) }

// Root is the root that the current certificate chains to.
func (n *Node) Root() *x509.Certificate {
	c := n.cur.Load().chain
	return c[len(c)-1]
}

// Roots are all roots the node trusts. The pool must not be changed.
func (n *Node) Roots() *x509.CertPool { return n.cur.Load().pool }

// Replace makes n what from is: later handshakes use the new certificate, open
// connections stay.
func (n *Node) Replace(from *Node) { n.cur.Store(from.cur.Load()) }

// certificate returns the current key and chain, root included: a peer that
// only knows the root's hash needs to see the root.
func (n *Node) certificate() *tls.Certificate { return &n.cur.Load().cert }

// newCredentials checks that key, chain and roots belong together. Without
// roots the chain's own last certificate is the root.
func newCredentials(chain [][]byte, key crypto.Signer, roots []*x509.Certificate) (*credentials, error) {
	bad := func(format string, args ...any) (*credentials, error) {
		return nil, fmt.Errorf("identity: "+format+": %w", append(args, mesh.ErrInvalid)...)
	}
	if len(chain) < 2 || len(chain) > maxChain {
		return bad("chain of %d certificates, want 2 to %d", len(chain), maxChain)
	}
	c := &credentials{cert: tls.Certificate{Certificate: chain, PrivateKey: key}, roots: roots, pool: x509.NewCertPool()}
	for i, der := range chain {
		x, err := x509.ParseCertificate(der)
		if err != nil {
			return bad("certificate %d of the chain is not readable", i+1)
		}
		c.chain = append(c.chain, x)
	}
	leaf, root := c.chain[0], c.chain[len(c.chain)-1]
	if !bytes.Equal(root.RawSubject, root.RawIssuer) || root.CheckSignatureFrom(root) != nil {
		return bad("the chain does not end in a root")
	}
	if len(roots) == 0 {
		c.roots = []*x509.Certificate{root}
	}
	for _, r := range c.roots {
		c.pool.AddCert(r)
	}
	if KeyHash(key.Public()) != KeyHash(leaf.PublicKey) {
		return bad("the certificate is for another key")
	}
	if len(leaf.ExtKeyUsage) == 0 {
		return bad("the certificate has no key usage")
	}
	// At its own last moment, so that an identity that has ended still loads.
	p, err := verifyChain(c.chain, c.pool, leaf.ExtKeyUsage[0], leaf.NotAfter, 0)
	if err != nil {
		return bad("%v", err)
	}
	c.id, c.cert.Leaf = p.Identity, leaf
	return c, nil
}
