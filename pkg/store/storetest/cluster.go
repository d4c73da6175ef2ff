package storetest

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/meshctl/meshctl/internal/freeport"
)

// Member is one etcd of a cluster.
type Member struct {
	Addr      string      // host:port of its client listener
	HasLeader func() bool // whether it knows one
	Stop      func()      // ends it for good
}

// Cluster starts three members that forget at the end of the test.
func Cluster(t testing.TB) [3]Member {
	t.Helper()
	var cfgs [3]*embed.Config
	var initial []string
	for i := range cfgs {
		cfg := newConfig(t, fmt.Sprintf("test%d", i))
		cfg.TickMs, cfg.ElectionMs = 100, 2000                  // with less, a busy machine elects over and over
		peer := url.URL{Scheme: "http", Host: freeport.Addr(t)} // has to be known before it listens
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		initial = append(initial, cfg.Name+"="+peer.String())
		cfgs[i] = cfg
	}
	var members [3]Member
	var wg sync.WaitGroup
	for i, cfg := range cfgs {
		cfg.InitialCluster = strings.Join(initial, ",")
		e, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(e.Close)
		t.Cleanup(stop)
		members[i] = Member{Addr: e.Clients[0].Addr().String(), HasLeader: func() bool { return e.Server.Leader() != 0 }, Stop: stop}
		wg.Go(func() { waitReady(t, e) })
	}
	wg.Wait()
	return members
}

func newConfig(t testing.TB, name string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.Name = name
	cfg.UnsafeNoFsync = true
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{free}, []url.URL{free}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{free}, []url.URL{free}
	return cfg
}

func waitReady(t testing.TB, e *embed.Etcd) {
	t.Helper()
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Error("etcd is not ready within a minute")
	}
}
