package subscription

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const testSecret = mesh.Secret("S3cret-of_the-device-0123456789")

// testCA is a certificate that stands in for that of a private cell.
func testCA(t testing.TB) string {
	t.Helper()
	pemText, err := os.ReadFile(filepath.Join("testdata", "ca.pem"))
	if err == nil {
		return string(pemText)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cell b"},
		NotBefore: time.Unix(1700000000, 0), NotAfter: time.Unix(5000000000, 0),
		IsCA: true, BasicConstraintsValid: true, PermittedDNSDomains: []string{"b.example.net"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join("testdata", "ca.pem"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// node is one of the device "device-aaaaaaaaaaaaaaaa".
func node(name, cell, host string, offer mesh.Offer, ca string) Node {
	id := mesh.DeviceID("device-aaaaaaaaaaaaaaaa")
	suffix := mesh.ServerName(cell + ".example.net")
	return Node{
		Name: name, Cell: cell, Host: host, Port: 443,
		ServerName: "k3xyz." + suffix, HiddenHost: "h7abc." + suffix,
		Offer: offer, Path: "/p4th", Service: "serv1ce",
		User: string(id), UUID: testSecret.UserID(id), Password: testSecret, CA: ca,
	}
}

// everything is a profile with each offer of a public cell and of a private
// one, through entries known by name, by IPv4 and by IPv6.
func everything(t testing.TB) Profile {
	t.Helper()
	p := Profile{
		Title: "Сеть «Дом»", Announce: "Maintenance on Friday", SupportURL: "https://t.me/example",
		PageURL: "https://sub.example.net/s/x", Interval: 6 * time.Hour, Member: "Иван Петров", Device: "phone",
		Standing: mesh.StandingOK, Up: 1 << 30, Down: 5 << 30, Limit: 100 << 30, Expires: time.Unix(1800000000, 0),
	}
	hosts := []string{"entry.example.net", "192.0.2.1", "2001:db8::1"}
	for i, o := range mesh.Offers() {
		p.Nodes = append(p.Nodes, node("🇩🇪 a "+o.String(), "a", hosts[i%len(hosts)], o, ""))
	}
	for i, o := range mesh.DefaultOffers() {
		p.Nodes = append(p.Nodes, node("b "+o.String(), "b", hosts[i%len(hosts)], o, testCA(t)))
	}
	return p
}

// plainNodes have these names, one each, and can be had in every format but those
// without VLESS.
func plainNodes(names ...string) Profile {
	p := Profile{Standing: mesh.StandingOK}
	for _, name := range names {
		p.Nodes = append(p.Nodes, node(name, "a", "192.0.2.1", mesh.Offer{Protocol: mesh.ProtocolTrojan, Transport: mesh.TransportTCP}, ""))
	}
	return p
}
