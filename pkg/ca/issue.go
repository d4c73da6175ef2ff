package ca

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	"github.com/smallstep/certificates/authority/provisioner"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Request asks for one certificate.
type Request struct {
	Identity mesh.Identity // what the certificate will say, whatever the CSR says
	CSR      []byte        // DER; only the key in it is used
	Life     time.Duration // from now; shortened to that of the intermediate
	Token    mesh.TokenID  // the token it is issued for, for the record
	// Replaces is the serial of the certificate that is renewed. It must be on
	// record for this node and not revoked.
	Replaces string
}

// minLife is the shortest certificate that makes sense with times in seconds.
const minLife = 2 * time.Second

// Issue signs a certificate, puts it on record and returns it with the
// certificates above it (DER, leaf first, root last). It returns ErrInvalid for
// an unusable request and ErrDenied for a renewal that is not allowed. A
// certificate that could not be put on record is not returned.
func (a *Authority) Issue(ctx context.Context, r Request) ([][]byte, mesh.CertRecord, error) {
	fail := func(err error) ([][]byte, mesh.CertRecord, error) { return nil, mesh.CertRecord{}, err }
	csr, err := a.checkRequest(r)
	if err != nil {
		return fail(err)
	}
	if err := a.checkReplaced(ctx, r); err != nil {
		return fail(err)
	}
	leaf, rec, err := a.draft(r, csr)
	if err != nil {
		return fail(err)
	}
	cert, err := a.signOnRecord(ctx, csr, leaf, rec)
	if err != nil {
		return fail(err)
	}
	a.cfg.Log.Info("certificate issued", "node", rec.Node, "serial", rec.Serial, "ends", rec.NotAfter)
	return [][]byte{cert.Raw, a.cfg.Intermediate.Raw, a.cfg.Root.Raw}, rec, nil
}

func (a *Authority) checkRequest(r Request) (*x509.CertificateRequest, error) {
	id, err := mesh.ParseIdentity(r.Identity.String())
	if err != nil {
		return nil, err
	}
	if id.Mesh != a.cfg.Mesh {
		return nil, fmt.Errorf("ca: issue to %s: of another mesh: %w", id, mesh.ErrInvalid)
	}
	if r.Life < minLife {
		return nil, fmt.Errorf("ca: issue to %s: life %v, want %v or more: %w", id.Node(), r.Life, minLife, mesh.ErrInvalid)
	}
	return parseCSR(r.CSR)
}

// checkReplaced refuses to renew what was never issued, is another's, or is
// revoked.
func (a *Authority) checkReplaced(ctx context.Context, r Request) error {
	if r.Replaces == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	old, err := a.cfg.Records.GetCert(ctx, r.Replaces)
	if err != nil {
		if mesh.Kind(err) == mesh.ErrNotFound {
			return fmt.Errorf("ca: renew %s: certificate %s is not on record: %w", r.Identity.Node(), mesh.Quotable(r.Replaces), mesh.ErrDenied)
		}
		return fmt.Errorf("ca: renew %s: %w", r.Identity.Node(), err)
	}
	if old.Node != r.Identity.Node() {
		return fmt.Errorf("ca: renew %s: certificate %s is another node's: %w", r.Identity.Node(), old.Serial, mesh.ErrDenied)
	}
	revoked, err := a.cfg.Records.IsRevoked(ctx, old.Node, old.Serial, old.Issued)
	if err != nil {
		return fmt.Errorf("ca: renew %s: %w", r.Identity.Node(), err)
	}
	if revoked {
		return fmt.Errorf("ca: renew %s: certificate %s is revoked: %w", r.Identity.Node(), old.Serial, mesh.ErrDenied)
	}
	return nil
}

// draft writes down what will be signed, and its record.
func (a *Authority) draft(r Request, csr *x509.CertificateRequest) (*x509.Certificate, mesh.CertRecord, error) {
	uri, err := url.Parse(r.Identity.String())
	if err != nil {
		return nil, mesh.CertRecord{}, fmt.Errorf("ca: issue to %s: %w", r.Identity, mesh.ErrInvalid)
	}
	keyHash, err := mesh.KeyHash(csr.PublicKey)
	if err != nil {
		return nil, mesh.CertRecord{}, err
	}
	// Certificates count whole seconds; rounding down errs towards "issued
	// before" a revocation.
	now := a.now().UTC().Truncate(time.Second)
	leaf := &x509.Certificate{
		SerialNumber:          newSerial(),
		PublicKey:             csr.PublicKey,
		PublicKeyAlgorithm:    csr.PublicKeyAlgorithm,
		NotBefore:             now.Add(-mesh.Backdate),
		NotAfter:              earlier(now.Add(r.Life), a.cfg.Intermediate.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           usageOf(r.Identity.Role),
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{uri},
	}
	if !leaf.NotAfter.After(now) {
		return nil, mesh.CertRecord{}, a.intermediateEnded("to " + r.Identity.Node())
	}
	return leaf, mesh.CertRecord{
		Serial:    leaf.SerialNumber.String(),
		Node:      r.Identity.Node(),
		KeyHash:   keyHash,
		Issuer:    string(a.cfg.Server),
		Issued:    now,
		NotBefore: leaf.NotBefore,
		NotAfter:  leaf.NotAfter,
		Token:     r.Token,
		Replaces:  r.Replaces,
	}, nil
}

func (a *Authority) intermediateEnded(what string) error {
	return mesh.WithHint(
		fmt.Errorf("ca: issue %s: this server's intermediate ended at %s: %w", what, a.cfg.Intermediate.NotAfter.Format(time.RFC3339), mesh.ErrUnavailable),
		"renew the intermediate of this server, which needs the root passphrase")
}

// usageOf is what a role's certificate may be used for: mgmt and core listen
// and dial, entry and admin only dial peers of the mesh.
func usageOf(r mesh.Role) []x509.ExtKeyUsage {
	if r == mesh.RoleMgmt || r == mesh.RoleCore {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// emptyTemplate takes nothing over from the request.
const emptyTemplate = "{}"

// signOnRecord signs and puts on record; smallstep does the second by way of
// recordDB. The records' own error, with its kind, wins over smallstep's.
func (a *Authority) signOnRecord(ctx context.Context, csr *x509.CertificateRequest, leaf *x509.Certificate, rec mesh.CertRecord) (*x509.Certificate, error) {
	stored := false
	var putErr error
	done := a.db.expect(rec.Serial, func() error {
		ctx, cancel := context.WithTimeout(ctx, dbTimeout)
		defer cancel()
		putErr = a.cfg.Records.PutCert(ctx, rec)
		stored = putErr == nil
		return putErr
	})
	defer done()
	cert, err := a.sign(ctx, csr, leaf)
	switch {
	case putErr != nil:
		return nil, fmt.Errorf("ca: put certificate on record: %w", putErr)
	case err == nil && !stored:
		return nil, fmt.Errorf("ca: put certificate on record: it was not asked to: %w", mesh.ErrUnavailable)
	}
	return cert, err
}

// sign lets smallstep sign leaf as it stands. Its errors carry the request and
// more in their details, so only their text goes on.
func (a *Authority) sign(ctx context.Context, csr *x509.CertificateRequest, leaf *x509.Certificate) (*x509.Certificate, error) {
	template, err := provisioner.CustomTemplateOptions(nil, nil, emptyTemplate)
	if err != nil {
		return nil, fmt.Errorf("ca: sign certificate: %v", err)
	}
	exactly := provisioner.CertificateEnforcerFunc(func(c *x509.Certificate) error {
		*c = *leaf
		return nil
	})
	chain, err := a.step.SignWithContext(ctx, csr, provisioner.SignOptions{}, template, exactly)
	if err != nil {
		return nil, fmt.Errorf("ca: sign certificate: %v: %w", err, mesh.ErrUnavailable)
	}
	return chain[0], nil
}
