package core

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	cellAnswer = time.Minute      // for management to answer a request
	cellRetry  = 5 * time.Minute  // after a refusal, at most
	cellMade   = time.Hour        // until it asks again for what is being made
	cellIdle   = 12 * time.Hour   // between two looks at a good certificate
	cellSkew   = 10 * time.Minute // a certificate that begins this late is taken
)

// cell is the certificate that clients of the core's cell see. Its key is made
// here. Management signs it with the CA of that cell at once, or has a public
// authority do it, which may take days: one key is asked for until it has its
// certificate, over restarts too.
type cell struct {
	path string // of its file; "" keeps it in memory
	log  *slog.Logger

	mu      sync.Mutex // guards all below
	wanted  mesh.ServerName
	id      string // of the cell, as management calls it
	held    *tls.Certificate
	suffix  mesh.ServerName // of held
	pending pendingKey      // has no certificate yet
	after   time.Time       // do not ask before
	changed chan struct{}   // has room for one: look again
}

func openCell(path string, log *slog.Logger) *cell {
	c := &cell{path: path, log: log, changed: make(chan struct{}, 1)}
	cert, suffix, err := loadCell(path)
	switch {
	case err == nil:
		c.held, c.suffix = cert, suffix
	case !errors.Is(err, mesh.ErrNotFound):
		log.Error("cell certificate lost, asking for another", "err", err)
	}
	if c.pending, err = loadPending(path); err != nil && !errors.Is(err, mesh.ErrNotFound) {
		log.Warn("key of a certificate that is being made lost", "err", err)
	}
	return c
}

// want says which suffix the certificate must be for; "" wants none.
func (c *cell) want(suffix mesh.ServerName, id string) {
	c.mu.Lock()
	if c.wanted != suffix || c.id != id {
		c.wanted, c.id, c.after = suffix, id, time.Time{}
	}
	c.mu.Unlock()
	c.wake()
}

func (c *cell) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// certificate returns the one to show at now, or nil.
func (c *cell) certificate(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil || c.suffix != c.wanted || !now.Before(c.held.Leaf.NotAfter) {
		return nil
	}
	return c.held
}

// describe returns suffix and end of the certificate held, for the hello.
func (c *cell) describe() (suffix mesh.ServerName, notAfter time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return "", time.Time{}
	}
	return c.suffix, c.held.Leaf.NotAfter
}

// restart has a request made again whose stream has ended.
func (c *cell) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = time.Time{}
}

// due returns a request when one is to be sent at now, and otherwise nil and
// when to look again.
func (c *cell) due(now time.Time) (*controlpb.CellRequest, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.wanted == "":
		return nil, cellIdle, nil
	case c.held != nil && c.suffix == c.wanted && now.Before(renewAt(c.held.Leaf)):
		return nil, min(renewAt(c.held.Leaf).Sub(now), cellIdle), nil
	case now.Before(c.after):
		return nil, c.after.Sub(now), nil
	}
	if !c.pending.serves(c.wanted) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, 0, fmt.Errorf("core: cell certificate: make key: %w", err)
		}
		c.pending = pendingKey{key, c.wanted}
	}
	csr, err := c.pending.request()
	if err != nil {
		return nil, 0, err
	}
	c.after = now.Add(cellAnswer)
	return &controlpb.CellRequest{Csr: csr, CellId: c.id}, cellAnswer, nil
}

// renewAt is two thirds into a certificate's life, which begins when it was
// issued: one that lives for minutes would be due at once otherwise.
func renewAt(c *x509.Certificate) time.Time {
	issued := c.NotBefore.Add(mesh.Backdate)
	return issued.Add(c.NotAfter.Sub(issued) * 2 / 3)
}

// retry is how long to wait after a refusal: soon enough for several tries
// while the certificate held lasts.
func (c *cell) retry(now time.Time) time.Duration {
	if c.held == nil || !now.Before(c.held.Leaf.NotAfter) {
		return cellRetry
	}
	return min(cellRetry, max(c.held.Leaf.NotAfter.Sub(now)/4, time.Second))
}

// answer takes management's reply. It returns true when there is a certificate,
// which is stored, then shown.
func (c *cell) answer(m *controlpb.CellCertificate, now time.Time) (taken bool, err error) {
	defer c.wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.pending.serves(c.wanted) && c.holds(m.GetChain()):
		return false, nil // said twice
	case !c.pending.serves(c.wanted):
		return false, fmt.Errorf("core: cell certificate: nobody asked for one: %w", mesh.ErrConflict)
	case m.GetPending():
		c.after = now.Add(cellMade)
		return false, savePending(c.path, c.pending)
	case m.GetError() != "":
		c.after = now.Add(c.retry(now))
		return false, fmt.Errorf("core: cell certificate: refused: %s: %w", mesh.Quotable(m.GetError()), mesh.ErrDenied)
	}
	cert, err := checkCell(m.GetChain(), c.pending.key, c.wanted, now)
	if err != nil {
		c.after = now.Add(c.retry(now))
		return false, err
	}
	c.held, c.suffix, c.pending, c.after = cert, c.wanted, pendingKey{}, time.Time{}
	if err := saveCell(c.path, cert, c.wanted); err != nil {
		return true, err // the key stays in its file
	}
	return true, dropPending(c.path)
}

// holds says whether chain is the certificate held.
func (c *cell) holds(chain [][]byte) bool {
	return c.held != nil && len(chain) > 0 && bytes.Equal(chain[0], c.held.Certificate[0])
}

// checkCell verifies that chain (DER, leaf first, CA last) serves names below
// suffix with key. It returns ErrInvalid.
func checkCell(chain [][]byte, key crypto.Signer, suffix mesh.ServerName, now time.Time) (*tls.Certificate, error) {
	bad := func(why any) (*tls.Certificate, error) {
		return nil, fmt.Errorf("core: cell certificate: %v: %w", why, mesh.ErrInvalid)
	}
	if len(chain) == 0 || len(chain) > 8 {
		return bad("no usable chain")
	}
	certs := make([]*x509.Certificate, len(chain))
	roots, inter := x509.NewCertPool(), x509.NewCertPool()
	for i, der := range chain {
		x, err := x509.ParseCertificate(der)
		if err != nil {
			return bad(err)
		}
		certs[i] = x
		inter.AddCert(x)
	}
	roots.AddCert(certs[len(certs)-1])
	leaf := certs[0]
	if pub, ok := key.Public().(*ecdsa.PublicKey); !ok || !pub.Equal(leaf.PublicKey) {
		return bad("it is for another key")
	}
	if now.Before(leaf.NotBefore) && leaf.NotBefore.Sub(now) < cellSkew {
		now = leaf.NotBefore // our clock is a little behind
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: "x." + string(suffix), Roots: roots, Intermediates: inter, CurrentTime: now})
	if err != nil {
		return bad(err)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}
