package mgmt

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

const serviceName = "sub.test.example.org"

// serviceFiles are a certificate for the subscription service, which no client
// of these tests checks.
func serviceFiles(dir string) (Subscription, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Subscription{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{serviceName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Subscription{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Subscription{}, err
	}
	s := Subscription{CertFile: filepath.Join(dir, "sub.crt"), KeyFile: filepath.Join(dir, "sub.key")}
	return s, errors.Join(
		os.WriteFile(s.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(s.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	)
}

// relayTo is an entry's session with a server.
func relayTo(t *testing.T, addr string, n *identity.Node) (*relay.Session, error) {
	t.Helper()
	conf := n.ClientTLS(mesh.Identity{Mesh: n.Identity().Mesh, Role: mesh.RoleMgmt}, nil, relay.ALPN)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// With TLS 1.3 a refusal shows only on the first read.
	sess := relay.Client(conn, relay.Config{})
	life, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = sess.Run(life) }()
	t.Cleanup(func() { end(); <-done })
	return sess, nil
}

// refusalOf is what an entry is told that opens a stream with that name.
func refusalOf(t *testing.T, sess *relay.Session, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	st, err := sess.Open(ctx, relay.Header{ServerName: name})
	if err == nil {
		st.Reset(relay.CodeCanceled)
	}
	return err
}

// spoke says whether err is the server's answer, and not what our own end says of
// a session that was cut.
func spoke(err error) bool {
	no, ok := errors.AsType[*relay.RefusedError](err)
	return ok && no.Code != relay.CodeGoingAway
}

func clientOf(t *testing.T, sess *relay.Session) *http.Client {
	tr := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: serviceName},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return sess.Open(ctx, relay.Header{ServerName: serviceName, Client: netip.MustParseAddrPort("192.0.2.1:1")})
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func setConfig(t *testing.T, r *running, patch string) {
	t.Helper()
	call(t, admin.ConfigSet, r.local(t), admin.ConfigSetRequest{Patch: []byte(patch)})
}

func TestOnlyEntriesBringClients(t *testing.T) {
	w := getWorld(t)
	for _, role := range []mesh.Role{mesh.RoleCore, mesh.RoleAdmin} {
		sess, err := relayTo(t, w.addr.Mesh, w.node(t, role))
		if err == nil {
			err = refusalOf(t, sess, serviceName)
		}
		if err == nil || spoke(err) {
			t.Errorf("a relay of a %s was taken: %v", role, err)
		}
	}
	pinned := identity.PinnedTLS(w.token(t, mesh.RoleEntry).RootHash, relay.ALPN)
	c, err := tls.Dial("tcp", w.addr.Mesh, pinned)
	if err == nil {
		refused(t, c) // a stranger's
	}
}

func TestARevokedEntryBringsNobody(t *testing.T) {
	w := getWorld(t)
	entry := w.node(t, mesh.RoleEntry)
	sess, err := relayTo(t, w.addr.Mesh, entry)
	if err != nil {
		t.Fatal(err)
	}
	if !spoke(refusalOf(t, sess, "x.example.net")) {
		t.Fatal("the server does not answer")
	}
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: entry.Identity().ID})
	select {
	case <-sess.Done():
	case <-time.After(20 * time.Second):
		t.Error("its session is still open")
	}
	if again, err := relayTo(t, w.addr.Mesh, entry); err == nil {
		err = refusalOf(t, again, "x.example.net")
		if err == nil || spoke(err) {
			t.Errorf("it was let in again: %v", err)
		}
	}
}

// TestClientsAreTold goes the whole way, from an administrator's command to what
// a client reads, at a real server.
func TestClientsAreTold(t *testing.T) {
	w := getWorld(t)
	entry := w.node(t, mesh.RoleEntry)
	sess, err := relayTo(t, w.addr.Mesh, entry)
	if err != nil {
		t.Fatal(err)
	}
	if no, ok := errors.AsType[*relay.RefusedError](refusalOf(t, sess, serviceName)); !ok || no.Code != relay.CodeUnknownDevice {
		t.Errorf("while the service is off: %v", no)
	}
	setConfig(t, w.running, `{"entryAddresses":["entry.example.net:443"],"subscription":{"name":"`+serviceName+`","title":"Test"}}`)
	defer setConfig(t, w.running, `{"entryAddresses":null,"subscription":null}`)
	eventually(t, "the service is on", func() bool { return refusalOf(t, sess, serviceName) == nil })

	member, cell := w.home(t)
	cc := w.local(t)
	d := call(t, admin.DeviceAdd, cc, admin.DeviceAddRequest{Member: member, Name: unique("phone"), Cell: cell})
	link := call(t, admin.DeviceSubscribe, cc, admin.DeviceSubscribeRequest{Ref: string(d.ID)})
	if !strings.HasPrefix(link.URL, "https://"+serviceName+"/s/") {
		t.Fatalf("link %q", link.URL)
	}
	client := clientOf(t, sess)
	get := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link.URL+"?format=sing-box", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	eventually(t, "the link is known", func() bool { code, _ := get(); return code == http.StatusOK })
	if _, body := get(); !strings.Contains(body, `"outbounds"`) || !strings.Contains(body, "entry.example.net") {
		t.Errorf("the client was told %.200q", body)
	}
	call(t, admin.DeviceRevoke, cc, admin.RevokeRequest{Ref: string(d.ID)})
	eventually(t, "the link is unknown again", func() bool { code, _ := get(); return code == http.StatusNotFound })
	secret := strings.TrimPrefix(link.URL, "https://"+serviceName+"/s/")
	if strings.Contains(w.logs.String(), secret) {
		t.Error("the secret of a link is in the log")
	}
}
