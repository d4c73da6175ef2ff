//go:build faults

package faults

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// anchors are certificates by what they end in: the mesh's root, etcd's CA, and
// all that admits nobody anywhere.
type anchors struct {
	mesh map[mesh.Role]tls.Certificate
	etcd map[ca.EtcdUse]tls.Certificate
	none map[string]tls.Certificate
}

func (l *Lab) anchors(t *testing.T) anchors {
	t.Helper()
	a := anchors{
		mesh: map[mesh.Role]tls.Certificate{
			mesh.RoleMgmt: l.Mgmt[0].identity(t), mesh.RoleEntry: l.Entries[0].identity(t), mesh.RoleCore: l.Cores[0].identity(t),
		},
		etcd: map[ca.EtcdUse]tls.Certificate{},
	}
	text, err := os.ReadFile(filepath.Join(l.Mgmt[0].Data(), "etcd-ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ca.ParseEtcdCA(mesh.Secret(text))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.NewEtcdCA(mesh.NewID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	from := l.Mgmt[0].Private.String()
	a.etcd[ca.EtcdPeer] = etcdCert(t, own, ca.EtcdPeer, embedded.PeerName, from)
	a.etcd[ca.EtcdClient] = etcdCert(t, own, ca.EtcdClient, embedded.ClientName, from)
	id, err := mesh.ParseIdentity(a.mesh[mesh.RoleMgmt].Leaf.URIs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	foreign := identitytest.NewWithID(t, id.Mesh)
	web := &x509.Certificate{DNSNames: []string{"www.example.com"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	a.none = map[string]tls.Certificate{
		"a server of a foreign mesh":       foreign.Certificate(t, id),
		"an entry of a foreign mesh":       foreign.Certificate(t, foreign.Identity(mesh.RoleEntry)),
		"what signs backups":               l.backupSigner(t, id.Mesh),
		"a cell's CA":                      pair(t, filepath.Join(l.Cores[0].Data(), "cell.pem")),
		"a peer of a foreign etcd":         etcdCert(t, other, ca.EtcdPeer, embedded.PeerName, from),
		"a client of a foreign etcd":       etcdCert(t, other, ca.EtcdClient, embedded.ClientName, from),
		"itself, with a server's identity": selfSigned(t, &x509.Certificate{URIs: []*url.URL{a.mesh[mesh.RoleMgmt].Leaf.URIs[0]}, Subject: pkix.Name{CommonName: embedded.PeerName}}),
		"a web server's root":              selfSigned(t, web),
	}
	return a
}

// backupSigner is what a server signs its backups with.
func (l *Lab) backupSigner(t *testing.T, m mesh.ID) tls.Certificate {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(l.Mgmt[0].Data(), name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var own struct{ Server mesh.ServerID }
	root, err1 := ca.ParseCert(read("root.crt"))
	intermediate, err2 := ca.ParseCert(read("intermediate.crt"))
	key, err3 := ca.ParseKey(mesh.Secret(read("intermediate.key")))
	if err := errors.Join(err1, err2, err3, json.Unmarshal(read("server.json"), &own)); err != nil {
		t.Fatal(err)
	}
	a, err := ca.New(ca.Config{Mesh: m, Server: own.Server, Root: root, Intermediate: intermediate, Key: key, Records: struct{ ca.Records }{}})
	if err != nil {
		t.Fatal(err)
	}
	signs := identitytest.Key(t)
	chain, err := a.IssueBackup(signs.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: chain, PrivateKey: signs}
}

func etcdCert(t *testing.T, authority *ca.EtcdCA, use ca.EtcdUse, cn, host string) tls.Certificate {
	t.Helper()
	made, err := authority.Issue(use, cn, []string{host}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := made.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func selfSigned(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key := identitytest.Key(t)
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// entrance is a door, who is let in there, and who else of ours is not.
type entrance struct {
	door
	admits tls.Certificate
	others map[string]tls.Certificate
}

func (l *Lab) entrances(a anchors) (out []entrance) {
	ofEtcd := map[string]tls.Certificate{"etcd's CA, a peer": a.etcd[ca.EtcdPeer], "etcd's CA, a client": a.etcd[ca.EtcdClient]}
	ofMesh := map[string]tls.Certificate{"the mesh's root, a server": a.mesh[mesh.RoleMgmt], "the mesh's root, an entry": a.mesh[mesh.RoleEntry], "the mesh's root, a core": a.mesh[mesh.RoleCore]}
	for i, h := range l.Mgmt {
		out = append(out, entrance{l.meshPort(l.Stranger, h), a.mesh[mesh.RoleCore], ofEtcd})
		for _, proto := range []string{identity.ProtoRelay, identity.ProtoProbe, ""} {
			d := l.meshPort(l.Stranger, h)
			d.proto, d.name = proto, fmt.Sprintf("%s with ALPN %q", d.name, proto)
			out = append(out, entrance{d, tls.Certificate{}, ofEtcd})
		}
		peer := door{h.Name + "'s etcd, for peers", l.Mgmt[(i+1)%3], h.Inside(2380), "", sayHTTP}
		client := door{h.Name + "'s etcd, for clients", h, "127.0.0.1:2379", identity.ProtoGRPC, sayHTTP2}
		out = append(out, entrance{peer, a.etcd[ca.EtcdPeer], ofMesh}, entrance{client, a.etcd[ca.EtcdClient], ofMesh})
	}
	for _, h := range l.Cores {
		out = append(out,
			entrance{relayPort(l.Stranger, h, identity.ProtoRelay), a.mesh[mesh.RoleEntry], ofEtcd},
			entrance{relayPort(l.Stranger, h, identity.ProtoProbe), a.mesh[mesh.RoleMgmt], ofEtcd},
			entrance{relayPort(l.Stranger, h, identity.ProtoGRPC), tls.Certificate{}, ofEtcd})
	}
	return out
}

// Whatever does not end in the anchor of a listener is refused there, for every
// listener of every role; what does is let in. Entries take no certificates, and
// metrics are on loopback, as TestPortScan shows.
func TestAnchorsAtEveryListener(t *testing.T) {
	l := theLab(t)
	a := l.anchors(t)
	doors, tried := l.entrances(a), 0
	for _, e := range doors {
		if e.admits.PrivateKey != nil {
			if err := e.try(t.Context(), e.admits); err != nil {
				t.Errorf("%s refuses its own: %v", e.name, err)
			}
		}
		for _, group := range []map[string]tls.Certificate{e.others, a.none} {
			for what, cert := range group {
				tried++
				if err := e.refuses(t.Context(), cert); err != nil {
					t.Errorf("certificate of %s: %v", what, err)
				}
			}
		}
	}
	l.Note("certificates of every other trust anchor at every listener", "%d combinations at %d listeners and protocols, all refused; the right ones are let in", tried, len(doors))
}

// Who is on the servers' private network and none of them gets no word from the
// ports there.
func TestNeighboursAreDropped(t *testing.T) {
	l := theLab(t)
	a := l.anchors(t)
	for _, h := range l.Mgmt {
		peer := door{h.Name + "'s etcd, for peers", l.Neighbour, h.Inside(2380), "", sayHTTP}
		for what, cert := range map[string]tls.Certificate{"no certificate": {}, "the mesh's root": a.mesh[mesh.RoleMgmt], "a foreign etcd": a.none["a peer of a foreign etcd"]} {
			if err := peer.refuses(t.Context(), cert); err != nil {
				t.Errorf("a neighbour with %s: %v", what, err)
			}
		}
		for _, network := range []string{"tcp", "udp"} {
			if got := l.Neighbour.say(t, network, h.Inside(7946)); len(got) > 0 {
				t.Errorf("%s's gossip answers a neighbour over %s: %q", h.Name, network, got)
			}
		}
	}
	l.Note("a machine on the servers' private network that is none of them", "no byte from gossip (TCP, UDP), no certificate but a peer's is taken by etcd's peer port")
}

// say sends what a gossiping server might, and returns the answer.
func (h *Host) say(t *testing.T, network, addr string) []byte {
	t.Helper()
	var conn net.Conn
	err := h.ns.Do(func() (err error) {
		conn, err = net.Dial(network, addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(listens)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("\x00\x82\xa5SeqNo\x01\xa4Node\xa6mgmt-a")); err != nil { // memberlist's ping
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.LimitReader(conn, 64))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Logf("%s %s: %v", network, addr, err)
	}
	return got
}
