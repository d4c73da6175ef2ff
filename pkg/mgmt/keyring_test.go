package mgmt

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/gossip"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// fixedEtcd gives every server a client port of etcd that the test knows.
func (x *trio) fixedEtcd() {
	for i := range x.confs {
		x.confs[i].Etcd.ClientListen = freeport.Addr(x.t)
	}
}

// store opens what the server's etcd holds with what lies in its folder, and
// nothing else.
func (m *member) store(t *testing.T) *store.Store {
	t.Helper()
	dir := filepath.Join(m.Config.Dir, dirEtcdTLS)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(m.Config.Dir, fileEtcdCA))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ca.ParseEtcdCA(mesh.Secret(text))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := store.ReadDataKeys(filepath.Join(m.Config.Dir, fileDataKey))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{
		Endpoints: []string{"https://" + m.Config.Etcd.ClientListen}, DataKeys: keys,
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authority.Pool(), Certificates: []tls.Certificate{pair}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (m *member) here(t *testing.T, name string) bool {
	t.Helper()
	for _, l := range m.status(t).Servers {
		if l.Name == name {
			return l.Here
		}
	}
	return false
}

// remove waits until etcd believes that the others have been well for a while.
func (m *member) remove(t *testing.T, name string) {
	t.Helper()
	cc := m.socket(t)
	eventually(t, name+" is removed", func() bool {
		_, err := admin.MgmtRemove.Call(t.Context(), cc, admin.RevokeRequest{Ref: name})
		if err != nil && !errors.Is(err, mesh.ErrConflict) && !errors.Is(err, mesh.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil || strings.Contains(err.Error(), "was removed already") // the answer was lost
	})
}

// The key of gossip that a removed server has opens nothing any more, and what
// it says is not understood; a server that is away in the middle of it hears the
// others when it is back.
func TestARemovedServerNeitherHearsNorTellsGossip(t *testing.T) {
	x := newTrio(t, "a", "b", "c")
	x.fixedEtcd()
	a, b, c := x.start(0), x.start(1), x.start(2)
	x.whole(a, b, c)
	reader := &cluster{r: &runtime{store: a.store(t)}}
	before, err := reader.storedRing(t.Context())
	if err != nil || len(before.keys) != 1 {
		t.Fatalf("the keyring of a mesh at rest: %d keys, %v", len(before.keys), err)
	}
	a.remove(t, "c")
	<-c.done
	b.stop(t)
	b = x.start(1).serves(t)
	eventually(t, "the key is another", func() bool {
		now, err := reader.storedRing(t.Context())
		return err == nil && len(now.keys) == 1 && !bytes.Equal(now.keys[0], before.keys[0])
	})
	eventually(t, "those who are left hear each other", func() bool { return a.here(t, "b") && b.here(t, "a") })

	at := netip.MustParseAddrPort(c.Config.GossipListen)
	thief := &gossip.Gossip{
		Listen: at, Keys: before.keys, Facts: gossip.Facts{Server: mesh.NewServerID(), Name: "c"}, Log: slog.New(slog.DiscardHandler),
		Peers: func(context.Context) []string { return []string{a.Config.GossipListen, b.Config.GossipListen} },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, up, said := make(chan error, 1), make(chan struct{}), len(a.logs.String())
	go func() { ended <- thief.Run(ctx, func() { close(up) }) }()
	<-up
	eventually(t, "a does not understand the old key", func() bool {
		return strings.Contains(a.logs.String()[said:], "no installed keys could decrypt")
	})
	if n := len(thief.Members()); n != 1 || a.here(t, "c") {
		t.Errorf("with the old key one sees %d servers; a sees c: %v", n, a.here(t, "c"))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
