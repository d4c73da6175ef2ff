package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// H-01: 500 nodes after ten minutes without any server. Whenever a server comes
// back, they come to it spread over the time that the back-off grew to. One
// return is too few nodes for a shape, so many moments of return are laid over
// each other.
func TestNodesComeBackSpreadAfterAnOutage(t *testing.T) {
	t.Parallel()
	const nodes, returns = 500, 60
	const outage, apart, bin = 10 * time.Minute, 67 * time.Second, 100 * time.Millisecond
	m := identitytest.New(t)
	node, revs, st := m.Node(t, mesh.RoleCore), m.Revocations(t), state(t, "192.0.2.1:1")
	tries := make([][]time.Duration, nodes)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), outage+returns*apart+2*time.Minute)
		defer cancel()
		start := time.Now()
		var wg sync.WaitGroup
		for i := range tries {
			p := &control.PhoneHome{
				Node: node, State: st, Revocations: revs, Role: &quietRole{}, Log: slog.New(slog.DiscardHandler),
				Dial: func(context.Context, string, string) (net.Conn, error) {
					tries[i] = append(tries[i], time.Since(start))
					return nil, errors.New("connection refused")
				},
			}
			wg.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
		wg.Wait()
	})
	bins := make([]int, 601)
	var latest time.Duration
	peakOfOne := 0
	for k := range returns {
		one := make([]int, len(bins))
		for _, at := range tries {
			d := next(at, outage+time.Duration(k)*apart)
			latest = max(latest, d)
			one[min(int(d/bin), len(bins)-1)]++
		}
		for i, n := range one {
			bins[i] += n
			peakOfOne = max(peakOfOne, n)
		}
	}
	peak := 0
	for _, n := range bins {
		peak = max(peak, n)
	}
	mean := float64(nodes*returns) / float64(latest/bin)
	t.Logf("%d nodes back within %v; per 100 ms at most %.2f times the mean; in any one return at most %d nodes",
		nodes, latest, float64(peak)/mean, peakOfOne)
	if float64(peak)/mean >= 3 || latest > 2*time.Minute {
		t.Errorf("peak/mean %.2f, want below 3; all back within %v, want 2 min", float64(peak)/mean, latest)
	}
}

// next is the time from then to the first of at that follows.
func next(at []time.Duration, then time.Duration) time.Duration {
	for _, a := range at {
		if a >= then {
			return a - then
		}
	}
	return time.Hour
}

// Nodes that know several servers spread over them.
func TestNodesSpreadOverServers(t *testing.T) {
	m := identitytest.New(t)
	node, revs := m.Node(t, mesh.RoleCore), m.Revocations(t)
	addrs := []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}
	st := state(t, addrs...)
	first := map[string]int{}
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		p := &control.PhoneHome{
			Node: node, State: st, Revocations: revs, Role: &quietRole{}, Log: slog.New(slog.DiscardHandler),
			Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				if ctx.Err() == nil {
					first[addr]++
				}
				cancel()
				return nil, errors.New("connection refused")
			},
		}
		if err := p.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range addrs {
		if n := first[a]; n < 60 || n > 140 {
			t.Errorf("%d of 300 nodes began with %s, want about 100", n, a)
		}
	}
}

// A server that was added while the stream is open is known when the stream's
// own server dies.
func TestPhoneHomeGoesToAServerThatWasAddedMeanwhile(t *testing.T) {
	m := identitytest.New(t)
	heard := make(chan *controlpb.NodeMessage, 100)
	added := serve(t, &mgmt{connect: attentive(m, heard)}, m.Node(t, mesh.RoleMgmt), nil)
	old := serve(t, &mgmt{connect: func(s controlpb.NodeControl_ConnectServer) error {
		return errors.Join(s.Send(welcome(m)), s.Send(&controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_Addresses{
			Addresses: &controlpb.Addresses{Mgmt: []string{added.addr}},
		}}))
	}}, m.Node(t, mesh.RoleMgmt), nil)
	p := phone(t, m, old.addr)
	stop := home(t, p)
	defer stop()
	hear(t, heard, "the hello at the added server", func(m *controlpb.NodeMessage) bool { return m.GetHello() != nil })
}

func TestRenewerAsksTheNextServer(t *testing.T) {
	t.Parallel()
	m := identitytest.New(t)
	var mu sync.Mutex
	var asked []int // which server, in order
	var servers []*mgmt
	for i := range 2 {
		servers = append(servers, serve(t, &mgmt{renew: func(p identity.Peer, r *controlpb.RenewRequest) (*controlpb.RenewResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked = append(asked, i); len(asked) == 1 {
				return nil, rpcstatus.To(fmt.Errorf("store: no leader: %w", mesh.ErrUnavailable))
			}
			return &controlpb.RenewResponse{Chain: m.Answer(t, p.Identity, r.GetCsr())}, nil
		}}, m.Node(t, mesh.RoleMgmt), nil))
	}
	r := renewing(t, m, servers[0])
	if err := r.State.SetAddresses([]string{servers[0].addr, servers[1].addr}); err != nil {
		t.Fatal(err)
	}
	runRenewer(t, r)
	eventually(t, "a new certificate", func() bool { return time.Now().Before(r.Node.Leaf().NotAfter) })
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 || asked[0] == asked[1] {
		t.Errorf("asked servers %v, want each once", asked)
	}
}
