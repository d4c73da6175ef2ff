package core

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A certificate of one minute is backdated by ten, and still not due at once;
// after a refusal there is time for several tries.
func TestACellCertificateOfAMinuteIsDueInItsLastThird(t *testing.T) {
	now := time.Now()
	leaf := &x509.Certificate{NotBefore: now.Add(-mesh.Backdate), NotAfter: now.Add(time.Minute)}
	if d := renewAt(leaf).Sub(now); d != 40*time.Second {
		t.Errorf("due after %v", d)
	}
	c := &cell{held: &tls.Certificate{Leaf: leaf}}
	if d := c.retry(now.Add(40 * time.Second)); d != 5*time.Second {
		t.Errorf("asks again after %v", d)
	}
	if d := c.retry(now.Add(time.Hour)); d != cellRetry {
		t.Errorf("without a certificate it asks again after %v", d)
	}
}
