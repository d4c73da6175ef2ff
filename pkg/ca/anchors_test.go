package ca_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// talk lets a client say a byte and the server answer; it returns what each saw.
func talk(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() { done <- answer(ln, server) }()
	clientErr = ask(ln.Addr().String(), client)
	return <-done, clientErr
}

func answer(ln net.Listener, cfg *tls.Config) error {
	raw, err := ln.Accept()
	if err != nil {
		return err
	}
	return echo(tls.Server(raw, cfg), false)
}

func ask(addr string, cfg *tls.Config) error {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return echo(tls.Client(raw, cfg), true)
}

func echo(c *tls.Conn, first bool) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if first {
		if _, err := c.Write([]byte("?")); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return err
	}
	if !first {
		_, err := c.Write([]byte("!"))
		return err
	}
	return nil
}

func suffix(t testing.TB, s string) mesh.ServerName {
	t.Helper()
	n, err := mesh.ParseServerName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cell makes a cell's CA and a leaf below it.
func cell(t testing.TB, name string) (caPEM string, leaf tls.Certificate) {
	t.Helper()
	caPEM, keyPEM, err := ca.NewCellCA(suffix(t, name), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	chain, err := ca.SignCellLeaf(caPEM, keyPEM, csrOf(t, key, &x509.CertificateRequest{DNSNames: []string{"evil.test"}}), suffix(t, name), 90*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return caPEM, tls.Certificate{Certificate: chain, PrivateKey: key}
}

func TestCellCertificate(t *testing.T) {
	caPEM, leaf := cell(t, "a.example.net")
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(caPEM)) {
		t.Fatal("the CA is no PEM")
	}
	server := &tls.Config{Certificates: []tls.Certificate{leaf}}
	for name, ok := range map[string]bool{
		"x7.a.example.net": true, "a.example.net": false, "x.y.a.example.net": false, "x.b.example.net": false, "evil.test": false,
	} {
		if _, err := talk(t, server, &tls.Config{RootCAs: pool, ServerName: name}); (err == nil) != ok {
			t.Errorf("a client that asks for %s: %v, should be trusted: %v", name, err, ok)
		}
	}
	c := parse(t, leaf.Certificate[0])
	if c.IsCA || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || len(c.DNSNames) != 1 {
		t.Errorf("leaf: CA %v, usage %v, names %v", c.IsCA, c.ExtKeyUsage, c.DNSNames)
	}
	if anchor := parse(t, leaf.Certificate[1]); strings.Contains(anchor.Subject.String(), "meshctl") {
		t.Errorf("the CA's name tells what runs here: %v", anchor.Subject)
	}
}

// TestCellCAIsConstrained signs what the cell's CA should never sign, with its
// very key: clients must refuse it.
func TestCellCAIsConstrained(t *testing.T) {
	caPEM, keyPEM, err := ca.NewCellCA(suffix(t, "a.example.net"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	csr := csrOf(t, key, &x509.CertificateRequest{})
	if _, err := ca.SignCellLeaf(caPEM, keyPEM, csr, suffix(t, "b.example.net"), time.Hour, time.Now()); err == nil {
		t.Error("it signed for another cell")
	}
	signer, err := ca.ParseKey(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	anchor, err := ca.ParseCert([]byte(caPEM))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(anchor)
	for name, names := range map[string]x509.Certificate{
		"bank.test":          {DNSNames: []string{"bank.test"}},
		"a.example.net.test": {DNSNames: []string{"a.example.net.test"}},
		"127.0.0.1":          {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"::1":                {IPAddresses: []net.IP{net.IPv6loopback}},
	} {
		tmpl := names
		tmpl.SerialNumber = anchor.SerialNumber
		tmpl.NotBefore, tmpl.NotAfter = anchor.NotBefore, time.Now().Add(time.Hour)
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		der, err := x509.CreateCertificate(rand.Reader, &tmpl, anchor, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		if _, err := talk(t, server, &tls.Config{RootCAs: pool, ServerName: name}); err == nil {
			t.Errorf("a client trusts the cell's CA for %s", name)
		}
	}
}

func etcdPair(t testing.TB, c *ca.EtcdCA, use ca.EtcdUse, cn string) tls.Certificate {
	t.Helper()
	e, err := c.Issue(use, cn, []string{"127.0.0.1", "localhost"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := e.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestEtcdCertificates(t *testing.T) {
	made, err := ca.NewEtcdCA(mesh.NewID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := ca.ParseEtcdCA(text)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(use ca.EtcdUse) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{etcdPair(t, etcd, use, "member")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: etcd.Pool()}
	}
	dial := func(use ca.EtcdUse) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{etcdPair(t, etcd, use, "client")}, RootCAs: etcd.Pool(), ServerName: "127.0.0.1"}
	}
	tests := []struct {
		name           string
		listen, dialed ca.EtcdUse
		ok             bool
	}{
		{"a client and the server", ca.EtcdServer, ca.EtcdClient, true},
		{"a peer and a peer", ca.EtcdPeer, ca.EtcdPeer, true},
		{"a client in the server's place", ca.EtcdClient, ca.EtcdClient, false},
		{"the server's certificate as a client", ca.EtcdServer, ca.EtcdServer, false},
	}
	for _, tt := range tests {
		s, c := talk(t, listen(tt.listen), dial(tt.dialed))
		if got := s == nil && c == nil; got != tt.ok {
			t.Errorf("%s: %v, want %v (%v, %v)", tt.name, got, tt.ok, s, c)
		}
	}
	if _, err := etcd.Issue(0, "x", nil, time.Now()); err == nil {
		t.Error("a certificate for no use")
	}
	for _, bad := range []mesh.Secret{"", "hello", text[:len(text)/2], text + text} {
		if _, err := ca.ParseEtcdCA(bad); err == nil || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("damaged CA: %v", err)
		}
	}
}

// TestOtherAnchorsAdmitNobody presents every other anchor there is to the
// listeners and dialers of the mesh.
func TestOtherAnchorsAdmitNobody(t *testing.T) {
	f, foreign := found(t), found(t)
	key := newKey(t)
	mgmtChain, _ := f.issue(t, f.identity(mesh.RoleMgmt), key)
	mgmt, err := identity.NewNode(identityOf(t, mgmtChain), mgmtChain, key)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := ca.NewEtcdCA(f.mesh, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, cellLeaf := cell(t, "a.example.net")
	foreignKey := newKey(t)
	foreignChain, _ := foreign.issue(t, foreign.identity(mesh.RoleMgmt), foreignKey)
	coreKey := newKey(t)
	coreChain, _ := f.issue(t, f.identity(mesh.RoleMgmt), coreKey)
	backupKey := newKey(t)
	backupChain, err := f.IssueBackup(backupKey.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cert tls.Certificate
		ok   bool
	}{
		"a backup signer":  {tls.Certificate{Certificate: backupChain, PrivateKey: backupKey}, false},
		"our own CA":       {tls.Certificate{Certificate: coreChain, PrivateKey: coreKey}, true},
		"another mesh":     {tls.Certificate{Certificate: foreignChain, PrivateKey: foreignKey}, false},
		"etcd's CA":        {etcdPair(t, etcd, ca.EtcdPeer, f.identity(mesh.RoleMgmt).String()), false},
		"a cell's CA":      {cellLeaf, false},
		"the intermediate": {tls.Certificate{Certificate: [][]byte{f.inter.Raw, f.root.Cert().Raw}, PrivateKey: f.key}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := mgmt.ServerTLS(identity.Policy{Accept: identity.MgmtPort().Accept}, identity.ProtoGRPC)
			client := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{identity.ProtoGRPC}, Certificates: []tls.Certificate{tt.cert}}
			if s, c := talk(t, server, client); (s == nil && c == nil) != tt.ok {
				t.Errorf("as a client: %v, %v, want admitted %v", s, c, tt.ok)
			}
			listen := &tls.Config{NextProtos: []string{identity.ProtoGRPC}, Certificates: []tls.Certificate{tt.cert}}
			expect := mesh.Identity{Mesh: f.mesh, Role: mesh.RoleMgmt}
			if _, c := talk(t, listen, mgmt.ClientTLS(expect, nil, identity.ProtoGRPC)); (c == nil) != tt.ok {
				t.Errorf("as a server: %v, want trusted %v", c, tt.ok)
			}
		})
	}
}

func identityOf(t testing.TB, chain [][]byte) mesh.Identity {
	t.Helper()
	id, err := mesh.ParseIdentity(parse(t, chain[0]).URIs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	return id
}
