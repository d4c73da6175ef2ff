package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// SignRevocation signs a record, so that nodes believe it whichever server
// hands it to them. Deciding and storing it is the caller's. It returns
// ErrInvalid for a record that covers nothing.
func (a *Authority) SignRevocation(r mesh.Revocation) (mesh.SignedRevocation, error) {
	if r.ID == "" || r.At.IsZero() || r.Until.IsZero() || (r.Serial == "") == (r.Node == "" || r.IssuedBefore.IsZero()) {
		return mesh.SignedRevocation{}, fmt.Errorf("ca: sign revocation: it needs an id, times, and either a serial or a node and a time: %w", mesh.ErrInvalid)
	}
	payload, err := json.Marshal(r)
	if err != nil {
		return mesh.SignedRevocation{}, fmt.Errorf("ca: sign revocation: %w", err)
	}
	sig, err := a.cfg.Key.Sign(rand.Reader, mesh.RevocationDigest(payload), crypto.SHA256)
	if err != nil {
		return mesh.SignedRevocation{}, fmt.Errorf("ca: sign revocation: %w", err)
	}
	return mesh.SignedRevocation{Record: r, Payload: payload, Signature: sig, Signer: a.cfg.Intermediate.Raw}, nil
}

// RevokedCert is one line of a CRL.
type RevokedCert struct {
	Serial string // decimal
	At     time.Time
}

// CRL signs a revocation list (DER) of certificates that this server issued, for
// outsiders: nodes use signed revocations. number must rise with each list.
func (a *Authority) CRL(number *big.Int, revoked []RevokedCert, now, next time.Time) ([]byte, error) {
	list := &x509.RevocationList{Number: number, ThisUpdate: now, NextUpdate: next}
	for _, r := range revoked {
		n, ok := new(big.Int).SetString(r.Serial, 10)
		if !ok {
			return nil, fmt.Errorf("ca: make CRL: serial %q: %w", mesh.Quotable(r.Serial), mesh.ErrInvalid)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: n, RevocationTime: r.At})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cfg.Intermediate, a.cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("ca: make CRL: %w", err)
	}
	return der, nil
}
