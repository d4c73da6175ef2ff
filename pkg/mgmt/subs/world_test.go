package subs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
	"github.com/meshctl/meshctl/pkg/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	serviceName = mesh.ServerName("sub.example.net")
	agentLinks  = "v2rayNG/1.9.5"
)

// facts are a State of maps.
type facts struct {
	mu      sync.Mutex // guards what follows
	config  mesh.Config
	members map[mesh.MemberID]mesh.Member
	devices map[mesh.DeviceID]mesh.Device
	cells   map[mesh.CellID]mesh.Cell
	spent   map[string]mesh.Spent
	running map[mesh.CellID]mesh.NodeConfig
	routes  map[mesh.ServerName]bool
	changed chan struct{}
	moved   map[mesh.DeviceID]mesh.DeviceTotal
	secrets map[mesh.DeviceID]mesh.Secret
	away    bool // the quorum does not answer
	broken  error
}

func newFacts() *facts {
	c := mesh.DefaultConfig()
	c.EntryAddresses = []string{"entry.example.net:443"}
	c.Subscription = mesh.SubscriptionSettings{Name: serviceName, Title: "Сеть", SupportURL: "https://example.net/help"}
	return &facts{
		config: c, members: map[mesh.MemberID]mesh.Member{}, devices: map[mesh.DeviceID]mesh.Device{},
		cells: map[mesh.CellID]mesh.Cell{}, spent: map[string]mesh.Spent{}, changed: make(chan struct{}),
		moved: map[mesh.DeviceID]mesh.DeviceTotal{}, routes: map[mesh.ServerName]bool{}, secrets: map[mesh.DeviceID]mesh.Secret{},
	}
}

// change changes something, and tells of it.
func (f *facts) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

func read[V any](f *facts, get func() V) V {
	f.mu.Lock()
	defer f.mu.Unlock()
	return get()
}

func (f *facts) Config() mesh.Config { return read(f, func() mesh.Config { return f.config }) }

func (f *facts) Member(id mesh.MemberID) (mesh.Member, bool) {
	m := read(f, func() mesh.Member { return f.members[id] })
	return m, m.ID != ""
}

func (f *facts) Device(id mesh.DeviceID) (mesh.Device, bool) {
	d := read(f, func() mesh.Device { return f.devices[id] })
	return d, d.ID != ""
}

func (f *facts) Devices() map[mesh.DeviceID]mesh.Device {
	return read(f, func() map[mesh.DeviceID]mesh.Device { return maps.Clone(f.devices) })
}

func (f *facts) Cells() map[mesh.CellID]mesh.Cell {
	return read(f, func() map[mesh.CellID]mesh.Cell { return maps.Clone(f.cells) })
}

func (f *facts) Spent() map[string]mesh.Spent {
	return read(f, func() map[string]mesh.Spent { return maps.Clone(f.spent) })
}

func (f *facts) Running(id mesh.CellID) mesh.NodeConfig {
	return read(f, func() mesh.NodeConfig { return f.running[id] })
}

func (f *facts) Routed(n mesh.ServerName) bool { return read(f, func() bool { return f.routes[n] }) }

func (f *facts) DevicesChanged() <-chan struct{} {
	return read(f, func() chan struct{} { return f.changed })
}

func (f *facts) Traffic(ctx context.Context) (store.TrafficNow, error) {
	if err := f.Confirm(ctx); err != nil {
		return store.TrafficNow{}, err
	}
	return store.TrafficNow{Devices: read(f, func() map[mesh.DeviceID]mesh.DeviceTotal { return maps.Clone(f.moved) })}, nil
}

// Confirm waits for a quorum that is away, as a read of the store does.
func (f *facts) Confirm(ctx context.Context) error {
	if !read(f, func() bool { return f.away }) {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("test: no quorum: %w", mesh.ErrUnavailable)
}

func (f *facts) Secret(d mesh.Device) (mesh.Secret, error) {
	return read(f, func() mesh.Secret { return f.secrets[d.ID] }), read(f, func() error { return f.broken })
}

// addCell adds an active one.
func (f *facts) addCell(name string, change ...func(*mesh.Cell)) mesh.CellID {
	c := mesh.Cell{
		ID: mesh.NewCellID(), Name: name, Suffix: mesh.ServerName(mesh.NewLabel() + ".example.net"),
		State: mesh.CellActive, Certificate: mesh.CertificatePublic, Paths: []mesh.Paths{mesh.NewPaths()},
	}
	for _, do := range change {
		do(&c)
	}
	f.change(func() { f.cells[c.ID] = c })
	return c.ID
}

func (f *facts) addMember(name string) mesh.MemberID {
	m := mesh.Member{ID: mesh.NewMemberID(), Name: name, State: mesh.MemberActive}
	f.change(func() { f.members[m.ID] = m })
	return m.ID
}

// addDevice adds one of a member in a cell, and returns the secret of its link.
func (f *facts) addDevice(m mesh.MemberID, cell mesh.CellID, change ...func(*mesh.Device)) (mesh.DeviceID, mesh.Secret) {
	link := mesh.NewSecret(24)
	d := mesh.Device{
		ID: mesh.NewDeviceID(), Member: m, Name: "phone", State: mesh.DeviceActive,
		Labels: []mesh.Label{{Label: mesh.NewLabel()}}, HiddenLabel: mesh.NewLabel(),
		Subscription: mesh.DeviceSubscription{Hash: mesh.SubscriptionHash(link)},
		Assigned:     mesh.Assignment{Cell: cell}, Created: time.Now(),
	}
	for _, do := range change {
		do(&d)
	}
	f.change(func() { f.devices[d.ID], f.secrets[d.ID] = d, mesh.NewSecret(24) })
	return d.ID, link
}

func (f *facts) setDevice(id mesh.DeviceID, do func(*mesh.Device)) {
	f.change(func() { d := f.devices[id]; do(&d); f.devices[id] = d })
}

func (f *facts) setMember(id mesh.MemberID, do func(*mesh.Member)) {
	f.change(func() { m := f.members[id]; do(&m); f.members[id] = m })
}

func (f *facts) setCell(id mesh.CellID, do func(*mesh.Cell)) {
	f.change(func() { c := f.cells[id]; do(&c); f.cells[id] = c })
}

// logBuffer keeps all log lines, down to debug.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is a running service and what it knows.
type world struct {
	*facts
	*Service
	logs  *logBuffer
	reg   *prometheus.Registry
	roots *x509.CertPool
	stop  func()
}

func start(t testing.TB, change ...func(*Service)) *world {
	t.Helper()
	w := &world{facts: newFacts(), logs: new(logBuffer), reg: prometheus.NewRegistry()}
	cert, roots := certificate(t, string(serviceName))
	w.roots = roots
	w.Service = &Service{
		State: w.facts, Certificate: func() *tls.Certificate { return cert }, Registerer: w.reg,
		Log: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, do := range change {
		do(w.Service)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, up := make(chan error, 1), make(chan struct{})
	go func() { done <- w.Run(ctx, func() { close(up) }) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	<-up
	return w
}

// certificate is one for name, and who trusts it.
func certificate(t testing.TB, name string) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// entry is an entry's side of a session that the service took. It returns nil if
// the service took none.
func (w *world) entry(t testing.TB, id string) *relay.Session {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if !w.Take(far, id, time.Now().Add(time.Hour)) {
		near.Close()
		far.Close()
		return nil
	}
	sess := relay.Client(near, relay.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sess.Run(ctx) // how it ended is not this test's matter
	}()
	t.Cleanup(func() { cancel(); <-done })
	return sess
}

var clientAddress = netip.MustParseAddrPort("192.0.2.7:40000")

func open(ctx context.Context, sess *relay.Session, name mesh.ServerName, from netip.AddrPort) (net.Conn, error) {
	st, err := sess.Open(ctx, relay.Header{ServerName: string(name), Client: from, Trace: "t"})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// client is a client's HTTP through a session of an entry.
func (w *world) client(t testing.TB, sess *relay.Session, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: w.roots, ServerName: string(serviceName)},
		ForceAttemptHTTP2: h2,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return open(ctx, sess, serviceName, clientAddress)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	proto  string
}

func get(t testing.TB, c *http.Client, secret mesh.Secret, change ...func(*http.Request)) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+string(serviceName)+"/s/"+secret.Reveal(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", agentLinks)
	for _, do := range change {
		do(req)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body), resp.Proto}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// clock stands still until it is told otherwise.
type clock struct {
	mu sync.Mutex // guards t
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
