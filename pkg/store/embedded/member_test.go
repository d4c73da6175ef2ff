package embedded_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/embedded"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// Members leave connections to each other behind, which end by a timeout of 5 s.
	err := goleak.Find()
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// logBuffer is written by etcd's goroutines.
type logBuffer struct {
	mu sync.Mutex
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

func newMember(t *testing.T, ca *storetest.CA, dir string, log *logBuffer) *embedded.Member {
	t.Helper()
	return &embedded.Member{
		Dir: filepath.Join(dir, "etcd"), TLSDir: filepath.Join(dir, "etcd-tls"), Name: "one",
		PeerURL: "https://127.0.0.1:0", ClientURL: "https://127.0.0.1:0", Token: "mesh", TLS: ca.Material(t),
		UnsafeNoFsync: true, Heartbeat: 10 * time.Millisecond, Election: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

// run starts the member, waits until it is ready, and returns how to end it.
func run(t *testing.T, m *embedded.Member) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- m.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the member ended before it was ready: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the member is not ready within a minute")
	}
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { stop() }) // an error is the test's own to check
	return stop
}

func open(t *testing.T, m *embedded.Member) *store.Store {
	t.Helper()
	endpoints, conf, err := m.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Endpoints: endpoints, TLS: conf, DataKey: storetest.DataKey})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *store.Store) mesh.MemberID {
	t.Helper()
	id := mesh.NewMemberID()
	_, err := s.Change(t.Context(), store.By{Actor: "local:0"}, "member add", func(tx *store.Tx) error {
		return store.Create(tx, s.Members, id, mesh.Member{ID: id, Name: string(id[7:]), State: mesh.MemberActive})
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAMemberKeepsItsStateOverARestart(t *testing.T) {
	var log logBuffer
	ca, dir := storetest.NewCA(t), t.TempDir()
	m := newMember(t, ca, dir, &log)
	stop := run(t, m)
	s := open(t, m)
	id := add(t, s)
	st, err := m.Status()
	if err != nil || st.Leader == "" || st.Leader != st.Member || st.Members != 1 || st.Revision == 0 || st.Bytes == 0 || st.Quota != embedded.DefaultQuota || len(st.Alarms) > 0 {
		t.Errorf("got status %+v, %v", st, err)
	}
	s.Close()
	if err := stop(); err != nil {
		t.Fatalf("got %v at a clean stop", err)
	}
	if _, err := m.Status(); !errors.Is(err, mesh.ErrUnavailable) {
		t.Errorf("got %v from a stopped member, want unavailable", err)
	}
	again := newMember(t, ca, dir, &log)
	run(t, again)
	s = open(t, again)
	defer s.Close()
	if _, err := s.Members.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	for line := range strings.SplitSeq(log.String(), "\n") {
		if line != "" && !strings.Contains(line, "level=DEBUG") && !isOfTheMachine(line) {
			t.Errorf("a quiet member logged %s", line)
		}
	}
}

// isOfTheMachine says that a line complains of a slow machine, and of nothing that
// the member does: etcd warns of what takes more than 100 ms, and raft when its
// election comes up before the first configuration is applied, which it repeats.
func isOfTheMachine(line string) bool {
	return strings.Contains(line, "took too long") || strings.Contains(line, "slow fdatasync") ||
		strings.Contains(line, "cannot campaign at term")
}

func TestOnlyOwnCertificatesAreAdmitted(t *testing.T) {
	var log logBuffer
	ca := storetest.NewCA(t)
	m := newMember(t, ca, t.TempDir(), &log)
	run(t, m)
	endpoints, conf, err := m.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]*embedded.Pair{
		"no certificate":             nil,
		"a peer's certificate":       new(ca.Issue(t, embedded.PeerName)),
		"a root of the same CA":      new(ca.Issue(t, "root")),
		"another CA's client":        new(storetest.NewCA(t).Issue(t, embedded.ClientName)),
		"this member's own (admits)": new(ca.Issue(t, embedded.ClientName)),
	} {
		t.Run(name, func(t *testing.T) {
			c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: conf.RootCAs}
			if pair != nil {
				cert, err := tls.X509KeyPair(pair.Cert, []byte(pair.Key.Reveal()))
				if err != nil {
					t.Fatal(err)
				}
				c.Certificates = []tls.Certificate{cert}
			}
			got := get(t, endpoints, c)
			if admits := strings.HasSuffix(name, "(admits)"); admits != (got == nil) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// get speaks just enough HTTP/2 to see whether the server talks to the client:
// with TLS 1.3 a refused certificate shows with the first read.
func get(t *testing.T, endpoints []string, conf *tls.Config) error {
	t.Helper()
	conf.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", strings.TrimPrefix(endpoints[0], "https://"), conf)
	if err != nil {
		return err
	}
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 9))
	return err
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	var log logBuffer
	ca := storetest.NewCA(t)
	m := newMember(t, ca, t.TempDir(), &log)
	run(t, m)
	next := ca.Material(t)
	if err := m.Renew(next); err != nil {
		t.Fatal(err)
	}
	endpoints, conf, err := m.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(endpoints[0], "https://"), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, err := tls.X509KeyPair(next.Server.Cert, []byte(next.Server.Key.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, want.Certificate[0]) {
		t.Error("the member still presents the certificate from before")
	}
}

func TestLostOrDamagedDataIsNeverReplacedByAFreshCluster(t *testing.T) {
	ruin := map[string]func(t *testing.T, data string){
		"the data folder is gone": func(t *testing.T, data string) { must(t, os.RemoveAll(data)) },
		"the data folder is empty": func(t *testing.T, data string) {
			must(t, os.RemoveAll(data))
			must(t, os.Mkdir(data, 0o700))
		},
		"the log is gone": func(t *testing.T, data string) { must(t, os.RemoveAll(filepath.Join(data, "member", "wal"))) },
		"bits of the log have flipped": func(t *testing.T, data string) {
			wals, err := filepath.Glob(filepath.Join(data, "member", "wal", "*.wal"))
			must(t, err)
			f, err := os.OpenFile(wals[0], os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			b := make([]byte, 256)
			_, err = f.ReadAt(b, 0)
			must(t, err)
			for i := 64; i < len(b); i += 3 {
				b[i] ^= 0x55
			}
			_, err = f.WriteAt(b, 0)
			must(t, err)
		},
		"the database is not one": func(t *testing.T, data string) {
			must(t, os.WriteFile(filepath.Join(data, "member", "snap", "db"), bytes.Repeat([]byte("x"), 1<<16), 0o600))
		},
	}
	for name, f := range ruin {
		t.Run(name, func(t *testing.T) {
			var log logBuffer
			ca, dir := storetest.NewCA(t), t.TempDir()
			m := newMember(t, ca, dir, &log)
			stop := run(t, m)
			s := open(t, m)
			add(t, s)
			s.Close()
			must(t, stop())
			f(t, m.Dir)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := newMember(t, ca, dir, &log).Run(ctx, func() { t.Error("ready"); cancel() })
			if err == nil || mesh.Hint(err) == "" {
				t.Fatalf("got %v, want an error with a hint", err)
			}
			t.Log(err)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAQuotaThatWasReachedIsReportedAndRecoveredFrom(t *testing.T) {
	var log logBuffer
	m := newMember(t, storetest.NewCA(t), t.TempDir(), &log)
	m.Quota = 4 << 20
	run(t, m)
	s := open(t, m)
	defer s.Close()
	id := add(t, s)
	fill := func() error {
		_, err := s.Change(t.Context(), store.By{Actor: "local:0"}, "fill", func(tx *store.Tx) error {
			return store.Update(tx, s.Members, id, func(m *mesh.Member) error { m.Note = strings.Repeat(mesh.NewLabel(), 1<<14); return nil })
		})
		return err
	}
	var err error
	for range 100 {
		if err = fill(); err != nil {
			break
		}
	}
	if !errors.Is(err, mesh.ErrUnavailable) || mesh.Hint(err) == "" {
		t.Fatalf("got %v, want unavailable with a hint", err)
	}
	if st, err := m.Status(); err != nil || len(st.Alarms) != 1 || st.Alarms[0] != "NOSPACE" {
		t.Fatalf("got %+v, %v; want the alarm NOSPACE", st, err)
	}
	// What fills this store is history and its audit; without the audit, recovery
	// makes room.
	if _, err := s.Client().Delete(t.Context(), "/mesh/v1/audit/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if err := m.RecoverSpace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := m.Status(); err != nil || len(st.Alarms) != 0 {
		t.Fatalf("got %+v, %v; want no alarm", st, err)
	}
	if err := fill(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, m *embedded.Member){
		"clients from elsewhere": func(_ *testing.T, m *embedded.Member) { m.ClientURL = "https://0.0.0.0:0" },
		"clients without TLS":    func(_ *testing.T, m *embedded.Member) { m.ClientURL = "http://127.0.0.1:0" },
		"peers without TLS":      func(_ *testing.T, m *embedded.Member) { m.PeerURL = "http://127.0.0.1:0" },
		"no certificates":        func(_ *testing.T, m *embedded.Member) { m.TLS = embedded.Material{} },
		"a folder others can read": func(t *testing.T, m *embedded.Member) {
			must(t, os.MkdirAll(m.Dir, 0o755))
			must(t, os.Chmod(m.Dir, 0o755))
		},
		"a port that is taken": func(t *testing.T, m *embedded.Member) {
			ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			t.Cleanup(func() { ln.Close() })
			m.ClientURL = "https://" + ln.Addr().String()
		},
		"a file where the folder is": func(t *testing.T, m *embedded.Member) { must(t, os.WriteFile(m.Dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			var log logBuffer
			m := newMember(t, storetest.NewCA(t), t.TempDir(), &log)
			spoil(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := m.Run(ctx, func() { t.Error("ready"); cancel() }); err == nil {
				t.Error("it ran")
			} else {
				t.Log(err)
			}
		})
	}
}
