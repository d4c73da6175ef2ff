package ca

import (
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"net/url"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// BackupLife is how long a certificate for signing backups lives.
const BackupLife = 30 * 24 * time.Hour

// IssueBackup certifies the key with which this server signs backups, and
// returns the certificate with those above it (DER, leaf first, root last). It
// lives for BackupLife, or until the intermediate ends. It admits nobody
// anywhere: its name is no identity and its one use is to sign documents. So it
// is not put on record, and the state does not change by being backed up.
func (a *Authority) IssueBackup(pub crypto.PublicKey, now time.Time) ([][]byte, error) {
	if why := weak(pub); why != "" {
		return nil, fmt.Errorf("ca: issue for backups: %s: %w", why, mesh.ErrInvalid)
	}
	uri, err := url.Parse(mesh.BackupURI(a.cfg.Mesh, a.cfg.Server))
	if err != nil {
		return nil, fmt.Errorf("ca: issue for backups: %w", err)
	}
	now = now.UTC().Truncate(time.Second)
	leaf := &x509.Certificate{
		SerialNumber:          newSerial(),
		NotBefore:             now.Add(-mesh.Backdate),
		NotAfter:              earlier(now.Add(BackupLife), a.cfg.Intermediate.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		UnknownExtKeyUsage:    []asn1.ObjectIdentifier{identity.DocumentSigning()},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{uri},
	}
	if !leaf.NotAfter.After(now) {
		return nil, a.intermediateEnded("for backups")
	}
	cert, err := signCert(leaf, a.cfg.Intermediate, pub, a.cfg.Key)
	if err != nil {
		return nil, err
	}
	a.cfg.Log.Info("backup certificate issued", "serial", cert.SerialNumber.String(), "ends", cert.NotAfter)
	return [][]byte{cert.Raw, a.cfg.Intermediate.Raw, a.cfg.Root.Raw}, nil
}
