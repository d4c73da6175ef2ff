// Package storetest gives tests a real etcd in the process, a store on it, and
// a link between the two that can be cut.
package storetest

import (
	"context"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/meshctl/meshctl/pkg/store"
)

// DataKey is the mesh data key of every store that New makes.
var DataKey = [32]byte{1, 2, 3}

// New returns an empty store that ends with the test.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, Etcd(t))
}

// NewLinked is New with a link in between.
func NewLinked(t testing.TB) (*store.Store, *Link) {
	t.Helper()
	l := NewLink(t, Etcd(t))
	return Open(t, l.Addr()), l
}

// Open returns a store on the etcd at addr (host:port), without TLS, that is
// closed with the test.
func Open(t testing.TB, addr string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Config{Endpoints: []string{"http://" + addr}, DataKey: DataKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // ends with the context canceled: nothing to learn
	return s
}

// Etcd starts an empty etcd that forgets at the end of the test, and returns
// host:port of its client listener.
func Etcd(t testing.TB) string {
	t.Helper()
	cfg := newConfig(t, "test")
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100 // one member: elected at once
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	waitReady(t, e)
	return e.Clients[0].Addr().String()
}
