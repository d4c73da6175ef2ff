package core

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = time.Minute      // for what must happen, on a busy machine
	cutTime  = 10 * time.Second // two seconds are promised
	suffix   = "a.example.net"
)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// world is a core that serves, with the mesh around it.
type world struct {
	*Server
	mesh *identitytest.Mesh
	addr string
	ca   *cellCA
	stop context.CancelFunc
	done chan error
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// newWorld starts a core that lets clients reach loopback, with the cell's
// configuration and certificate in force.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	m := identitytest.New(t)
	o := Options{
		Node: m.Node(t, mesh.RoleCore), Revocations: m.Revocations(t), Config: DefaultConfig(),
		Registerer: prometheus.NewRegistry(),
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	o.Config.Egress.Allow = []netip.Prefix{loopback}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Server: s, mesh: m, ca: newCellCA(t, suffix)}
	w.serve(t)
	if err := s.ApplyConfig(t.Context(), everything(&controlpb.Config{Revision: 1, CellSuffix: suffix, CellId: "cell-1"})); err != nil {
		t.Fatal(err)
	}
	if s.cfg.Egress.Kind == EgressProxy {
		w.certify(t)
	}
	return w
}

func (w *world) serve(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.done = cancel, make(chan error, 1)
	go func() { w.done <- w.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-w.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		w.done <- nil // for a test that waits after this
	})
}

// certify takes the core's request for a certificate and answers it.
func (w *world) certify(t testing.TB) {
	t.Helper()
	req, _, err := w.cell.due(time.Now())
	if err != nil || req == nil {
		t.Fatalf("request %v, %v", req, err)
	}
	w.tell(t, &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_CellCertificate{
		CellCertificate: &controlpb.CellCertificate{Chain: w.ca.sign(t, req.GetCsr(), time.Hour)},
	}})
}

// tell hands the core a message of management and returns what it answers.
func (w *world) tell(t testing.TB, m *controlpb.MgmtMessage) (answers []*controlpb.NodeMessage) {
	t.Helper()
	err := w.Handle(t.Context(), m, func(a *controlpb.NodeMessage) error { answers = append(answers, a); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// client is a device with its secret.
type client struct {
	*controlpb.Device
	secret mesh.Secret
}

func newClient(change ...func(*controlpb.Device)) client {
	id, secret := mesh.NewDeviceID(), mesh.NewSecret(16)
	d := &controlpb.Device{
		Id:          string(id),
		ServerNames: []string{mesh.NewLabel() + "." + suffix},
		HiddenHost:  mesh.NewLabel() + "." + suffix,
	}
	v := mesh.NewVerifiers(id, secret)
	d.HttpVerifier, d.VlessVerifier, d.TrojanVerifier = v.HTTP, v.VLESS, v.Trojan
	for _, f := range change {
		f(d)
	}
	return client{d, secret}
}

func (c client) name() string { return c.ServerNames[0] }

// know gives the core a device table of these clients.
func (w *world) know(t testing.TB, clients ...client) {
	t.Helper()
	m := &controlpb.Devices{Revision: w.devices.held() + 1, Snapshot: true}
	for _, c := range clients {
		m.Upserts = append(m.Upserts, c.Device)
	}
	a := w.tell(t, &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Devices{Devices: m}})
	if len(a) != 1 || a[0].GetAck().GetRevision() != m.GetRevision() || a[0].GetAck().GetError() != "" {
		t.Fatalf("answered %v", a)
	}
}

// session opens a relay session as an entry does.
func (w *world) session(t testing.TB) *relay.Session {
	t.Helper()
	s, err := w.sessionAs(t, w.mesh.Node(t, mesh.RoleEntry))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) sessionAs(t testing.TB, node *identity.Node) (*relay.Session, error) {
	c, err := w.dialAs(t, node, relay.ALPN)
	if err != nil {
		return nil, err
	}
	s := relay.Client(c, relay.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s, nil
}

func (w *world) dialAs(t testing.TB, node *identity.Node, alpn string) (*tls.Conn, error) {
	t.Helper()
	c, err := tls.Dial("tcp", w.addr, node.ClientTLS(w.Node.Identity(), nil, alpn))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, nil
}

func header(c client) relay.Header {
	return relay.Header{ServerName: c.name(), Device: c.Id, Trace: "t1"}
}

// connect opens a stream for c and the client's TLS in it.
func (w *world) connect(t testing.TB, s *relay.Session, c client) *tls.Conn {
	t.Helper()
	st, err := s.Open(t.Context(), header(c))
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(st, w.clientTLS(c.name()))
	t.Cleanup(func() { _ = tc.Close() })
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	return tc
}

func (w *world) clientTLS(name string) *tls.Config {
	return &tls.Config{RootCAs: w.ca.pool, ServerName: name}
}

func refused(t testing.TB, err error) *relay.RefusedError {
	t.Helper()
	r, ok := errors.AsType[*relay.RefusedError](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r
}

// cellCA is the CA of one cell, as management keeps it.
type cellCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	name string
}

func newCellCA(t testing.TB, suffix string) *cellCA {
	t.Helper()
	key := identitytest.Key(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: suffix},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomains: []string{suffix}, PermittedDNSDomainsCritical: true,
	}
	ca := &cellCA{key: key, pool: x509.NewCertPool(), name: suffix}
	ca.cert = create(t, tmpl, tmpl, &key.PublicKey, key)
	ca.pool.AddCert(ca.cert)
	return ca
}

func create(t testing.TB, tmpl, parent *x509.Certificate, pub any, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub, by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (ca *cellCA) sign(t testing.TB, csr []byte, life time.Duration) [][]byte {
	t.Helper()
	req, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	leaf := create(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"*." + ca.name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca.cert, req.PublicKey, ca.key)
	return [][]byte{leaf.Raw, ca.cert.Raw}
}
