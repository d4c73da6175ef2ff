package gateway_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/store/gateway"
)

// A lookup at one server and at three, and when the first of them holds up one
// answer in 50 for 100 ms: alone it makes the slowest lookups that slow, beside
// others it costs them the hedge.
func BenchmarkLookupAtSeveralServers(b *testing.B) {
	for _, bb := range []struct {
		name    string
		servers int
		stall   bool
	}{
		{"one server", 1, false},
		{"three servers", 3, false},
		{"one server that stalls", 1, true},
		{"three servers, all of which stall in turn", 3, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			ca, etcd := identitytest.New(b), startEtcd(b)
			var stalls atomic.Bool
			var addrs []string
			var first *mgmt
			for range bb.servers {
				var n atomic.Int64
				first = startMgmtOn(b, ca, etcd, func(s *gateway.Server) {
					s.HasLeader = func() bool {
						if stalls.Load() && n.Add(1)%50 == 0 {
							<-time.After(100 * time.Millisecond)
						}
						return true
					}
				})
				addrs = append(addrs, first.addr)
			}
			first.putRoute(b, name)
			c := first.client(b, func(cfg *gateway.Config) {
				cfg.Addresses, cfg.PerTry = func() []string { return addrs }, 300*time.Millisecond
			})
			for range 100 {
				lookup(b, c, name)
			}
			stalls.Store(bb.stall)
			var took []time.Duration
			for b.Loop() {
				at := time.Now()
				lookup(b, c, name)
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
