package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// certTime is more than any step of an order takes.
const certTime = 90 * time.Second

// TestCertificatesAreOrderedFromAnAuthority orders from a real ACME authority,
// whose challenges are answered at a real name server: for a core, whose key stays
// there, and for the subscription service. What clients see at an entry is
// verified as theirs do it.
func TestCertificatesAreOrderedFromAnAuthority(t *testing.T) {
	m := newMesh(t, dev.Settings{Servers: 1, Cores: 1, Entries: 1})
	d := acmetest.NewDNS(t, []string{"public.test."})
	a := acmetest.NewAuthority(t, d.Addr, "")
	call(t, m, admin.ConfigSet, admin.ConfigSetRequest{Patch: []byte(`{"subscription":{"name":"sub.public.test","certificate":"acme"}}`)})
	call(t, m, admin.CellAdd, admin.CellAddRequest{Name: "public", Suffix: "a.public.test", Certificate: mesh.CertificatePublic,
		CellOptions: admin.CellOptions{Order: new(mesh.OrderACME)}})
	call(t, m, admin.ACMESet, admin.ACMESetRequest{
		Directory: new(a.URL), Roots: new(a.Roots), Agree: true, Provider: new(mesh.DNSUpdate), Server: new(d.Addr), KeyName: new(acmetest.Key),
		Algorithm: new(acmetest.Algorithm), Credential: new(acmetest.Secret), Resolvers: &[]string{d.Addr},
	})
	var account string
	eventually(t, certTime, "the account", func() error {
		account = call(t, m, admin.ACMEGet, admin.None{}).State.Account
		if account == "" {
			return errors.New("no account yet")
		}
		return nil
	})
	eventually(t, certTime, "the order is refused without a CAA record", func() error {
		for _, n := range call(t, m, admin.ACMEGet, admin.None{}).Names {
			if n.What == "subscription" && len(n.Certs) == 1 && n.Certs[0].Failures > 0 {
				return nil
			}
		}
		return errors.New("no failure yet")
	})
	if a.Orders() != 0 {
		t.Errorf("%d orders without a CAA record", a.Orders())
	}
	d.Put(t, acmetest.CAA("public.test", acmetest.Identity, account))
	call(t, m, admin.ACMEOrder, admin.ACMEOrderRequest{})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := m.AddCore(ctx, "core-public", "public"); err != nil { // which is ready once it has its certificate
		t.Fatal(err)
	}
	device := call(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: string(m.Device.Member), Name: "public", Cell: "public"})
	for _, name := range []string{string(device.ServerNames[0]), "sub.public.test"} {
		eventually(t, certTime, name+" is trusted", func() error { return trusted(m.EntryAddresses[0], name, a.CA) })
	}
}

// trusted says why a client that trusts roots would not trust name at an entry.
func trusted(entry, name string, roots *x509.CertPool) error {
	raw, err := net.DialTimeout("tcp", entry, 5*time.Second)
	if err != nil {
		return err
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(5 * time.Second))
	c := tls.Client(raw, &tls.Config{ServerName: name, RootCAs: roots, MinVersion: tls.VersionTLS12})
	if err := c.Handshake(); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return nil
}
