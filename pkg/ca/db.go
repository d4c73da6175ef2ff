package ca

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/smallstep/certificates/authority/provisioner"
	"github.com/smallstep/certificates/db"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// dbTimeout bounds each call to the records: smallstep's interface has no
// context of its own.
const dbTimeout = 5 * time.Second

// recordDB lets smallstep keep its certificates in Records. Since its interface
// passes neither context nor more than the certificate, Issue says beforehand
// what to expect. What it does not use (SSH) is not implemented.
type recordDB struct {
	db.AuthDB // nil: what is not overridden below is never called
	records   Records

	mu       sync.Mutex              // guards what follows
	expected map[string]func() error // by serial: what puts it on record
}

// expect announces the certificate that is about to be stored, and how.
func (d *recordDB) expect(serial string, put func() error) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expected == nil {
		d.expected = map[string]func() error{}
	}
	d.expected[serial] = put
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.expected, serial)
	}
}

// StoreCertificateChain implements an extension that smallstep looks for.
func (d *recordDB) StoreCertificateChain(_ provisioner.Interface, chain ...*x509.Certificate) error {
	serial := chain[0].SerialNumber.String()
	d.mu.Lock()
	put := d.expected[serial]
	d.mu.Unlock()
	if put == nil {
		return fmt.Errorf("ca: certificate %s was not asked for: %w", serial, mesh.ErrDenied)
	}
	return put()
}

// StoreRenewedCertificate implements an extension that smallstep looks for. Its
// own way to renew, which would copy names from the old certificate and ask
// nobody, stays shut: Issue with Replaces is the one way.
func (d *recordDB) StoreRenewedCertificate(*x509.Certificate, ...*x509.Certificate) error {
	return fmt.Errorf("ca: smallstep's own renewal: %w", mesh.ErrDenied) // not db.ErrNotImplemented, which it ignores
}

// IsRevoked implements db.AuthDB. A serial that is not on record counts as
// revoked.
func (d *recordDB) IsRevoked(serial string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dbTimeout)
	defer cancel()
	r, err := d.records.GetCert(ctx, serial)
	if err != nil {
		return true, err
	}
	return d.records.IsRevoked(ctx, r.Node, r.Serial, r.Issued)
}

// UseToken implements db.AuthDB. Only a hash is kept.
func (d *recordDB) UseToken(id, _ string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dbTimeout)
	defer cancel()
	sum := sha256.Sum256([]byte(id))
	return d.records.UseOnce(ctx, "ott-"+hex.EncodeToString(sum[:]))
}

// Revoke implements db.AuthDB: revocations are written by the store, in the
// transaction of the change that causes them.
func (d *recordDB) Revoke(*db.RevokedCertificateInfo) error { return db.ErrNotImplemented }

// GetCertificate implements db.AuthDB: records hold no certificates.
func (d *recordDB) GetCertificate(string) (*x509.Certificate, error) {
	return nil, db.ErrNotImplemented
}

// Shutdown implements db.AuthDB. The records belong to the caller.
func (d *recordDB) Shutdown() error { return nil }
