package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Uploaded is a certificate that was taken for a core.
type Uploaded struct {
	Core     mesh.CoreID
	NotAfter time.Time
	Warning  string // "": none
}

// Upload takes the chain in file (PEM, leaf first) for the core of the cell whose
// key it is for. It returns ErrInvalid for one that would not serve the cell and
// ErrNotFound for one of no core's key.
func Upload(tx *store.Tx, st *store.Store, cell mesh.Cell, file []byte, now time.Time) (Uploaded, error) {
	if cell.Certificate != mesh.CertificatePublic {
		return Uploaded{}, fmt.Errorf("certs: cell %s makes its certificates itself, with its own authority: %w", cell.Name, mesh.ErrConflict)
	}
	chain, err := parseChain(file)
	if err != nil {
		return Uploaded{}, err
	}
	leaf, err := checkChain(chain, wildcard(cell.Suffix), now)
	if err != nil {
		return Uploaded{}, err
	}
	all, err := store.List(tx, st.CellCerts)
	if err != nil {
		return Uploaded{}, err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c := all[id]
		if c.Cell != cell.ID || c.Suffix != cell.Suffix || !forKey(chain[0], c.Order.Request) {
			continue
		}
		out := Uploaded{Core: id, NotAfter: leaf.NotAfter.UTC(), Warning: untrusted(chain, leaf, now)}
		if len(c.Order.Chain) > 0 && bytes.Equal(c.Order.Chain[0], chain[0]) {
			return out, nil
		}
		return out, store.Update(tx, st.CellCerts, id, func(c *mesh.CellCert) error {
			c.Order = made(c.Order, chain, leaf.NotAfter, mesh.OrderUpload, now)
			return nil
		})
	}
	return Uploaded{}, mesh.WithHint(fmt.Errorf("certs: no core of cell %s asked for a certificate with that key: %w", cell.Name, mesh.ErrNotFound),
		"have the requests of now signed: meshctl admin cell request "+cell.Name)
}

// parseChain reads certificates, and leaves out a root at the end: clients have
// it or do not trust it.
func parseChain(file []byte) ([][]byte, error) {
	var chain [][]byte
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("certs: chain: it holds a %s; keys stay where they were made: %w", mesh.Quotable(block.Type), mesh.ErrInvalid)
		}
		if len(chain) > maxChain {
			break
		}
		chain = append(chain, block.Bytes)
	}
	if n := len(chain); n > 1 {
		if c, err := x509.ParseCertificate(chain[n-1]); err == nil && bytes.Equal(c.RawIssuer, c.RawSubject) {
			chain = chain[:n-1]
		}
	}
	return chain, nil
}

// untrusted says why clients may not trust a chain, going by this machine's roots.
func untrusted(chain [][]byte, leaf *x509.Certificate, now time.Time) string {
	inter := x509.NewCertPool()
	for _, der := range chain[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			inter.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Intermediates: inter, CurrentTime: now}); err != nil {
		return "this server's system does not trust it, so clients may not either (" + err.Error() + ")"
	}
	return ""
}

// Open says whether a request waits for its certificate.
func Open(o mesh.CertOrder) bool { return len(o.Request) > 0 && !answered(o) }
