package ca

import "crypto/x509"

// Provisioners lists what smallstep was told to offer.
func (a *Authority) Provisioners() (names []string) {
	list, _, err := a.step.GetProvisioners("", 0)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range list {
		names = append(names, p.GetName()+" "+p.GetType().String())
	}
	return names
}

// StoreUnasked stores a certificate that Issue did not announce.
func (a *Authority) StoreUnasked(c *x509.Certificate) error {
	return a.db.StoreCertificateChain(nil, c)
}

// UseToken and IsRevoked are what smallstep calls.
func (a *Authority) UseToken(id string) (bool, error) { return a.db.UseToken(id, "the token itself") }

// IsRevoked is what smallstep calls.
func (a *Authority) IsRevoked(serial string) (bool, error) { return a.step.IsRevoked(serial) }

// RenewByItself is smallstep's own renewal, which must stay shut.
func (a *Authority) RenewByItself(c *x509.Certificate) error {
	_, err := a.step.Renew(c)
	return err
}
