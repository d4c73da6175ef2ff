//go:build kube

package kube

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/lab"
)

// balancerClass is that of the Services the balancer serves.
const balancerClass = "meshctl.test/lb"

// proxyAnnotation on a Service makes the balancer say who the client is, when its
// value is v2.
const proxyAnnotation = "meshctl.test/proxy-protocol"

// How the balancer judges a worker: as unhealthy after so many checks in a row
// that failed, and as healthy after one that did not.
const (
	checkEvery = time.Second
	checkFails = 2
)

// balancer plays the part of a cloud's load balancer and its controller: a proxy
// of TCP connections, on a host of its own, that gives addresses to Services.
type balancer struct {
	lab.Namespace
	api    *api
	client *http.Client
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	services map[string]*service
	last     byte // of the addresses given so far
	noted    error
}

func (k *Kube) newBalancer(ctx context.Context, p place) (*balancer, error) {
	ns, err := k.fabric.attach("balancer"+p.suffix, hostAddr(p.balancer))
	if err != nil {
		return nil, err
	}
	b := &balancer{Namespace: ns, api: k.admin, services: map[string]*service{}, last: p.services}
	b.client = &http.Client{Timeout: checkEvery, Transport: &http.Transport{DialContext: b.Dial, DisableKeepAlives: true}}
	b.wg.Go(func() { b.run(ctx) })
	return b, nil
}

func (b *balancer) wait() { b.wg.Wait() }

// run looks at the Services of the cluster until ctx ends. While the API server
// is away it goes on with what it knows.
func (b *balancer) run(ctx context.Context) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.look(ctx)
		b.mu.Lock()
		b.noted = err
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			for _, s := range b.services {
				s.end()
			}
			return
		case <-tick.C:
		}
	}
}

func (b *balancer) look(ctx context.Context) error {
	nodes, err := b.api.get(ctx, "/api/v1/nodes")
	if err != nil {
		return err
	}
	addrs := map[string]netip.Addr{}
	for _, n := range nodes.list("items") {
		addr, err := internalAddr(n)
		if err != nil {
			continue // it is only just coming
		}
		addrs[n.text("metadata", "name")] = addr
	}
	list, err := b.api.get(ctx, "/api/v1/services")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, o := range list.list("items") {
		if o.text("spec", "type") != "LoadBalancer" || o.text("spec", "loadBalancerClass") != balancerClass {
			continue
		}
		s, err := b.serve(ctx, o)
		if err != nil {
			return err
		}
		seen[s.name] = true
		s.update(o, addrs)
	}
	b.forget(seen)
	return nil
}

// serve returns the service of an object, which it gives an address when it has
// none.
func (b *balancer) serve(ctx context.Context, o object) (*service, error) {
	path := "/api/v1/namespaces/" + o.text("metadata", "namespace") + "/services/" + o.text("metadata", "name")
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.services[path]
	if s == nil {
		b.last++
		s = &service{balancer: b, name: path, addr: hostAddr(b.last), targets: map[string]*target{}, ports: map[int]*port{}}
		if err := lab.IP("-n " + string(b.Namespace) + " address add " + s.addr.String() + "/32 dev eth0"); err != nil {
			return nil, err
		}
		b.services[path] = s
		checks, stop := context.WithCancel(ctx)
		s.stop = stop
		b.wg.Go(func() { s.check(checks) })
	}
	if o.text("status", "loadBalancer", "ingress", 0, "ip") == s.addr.String() {
		return s, nil
	}
	return s, b.api.patch(ctx, path+"/status?fieldManager=meshctl-test-lb", object{"status": object{"loadBalancer": object{
		"ingress": []object{{"ip": s.addr.String(), "ipMode": "Proxy"}}}}})
}

func (b *balancer) forget(seen map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, s := range b.services {
		if !seen[name] {
			s.end()
			delete(b.services, name)
		}
	}
}

// Balanced waits until the balancer serves the Service with at least n healthy
// workers, and returns its address.
func (k *Kube) Balanced(t testing.TB, ns, name string, n int) netip.Addr {
	t.Helper()
	var addr netip.Addr
	k.WaitFor(t, "the balancer serves "+ns+"/"+name, func() error {
		k.balancer.mu.Lock()
		s, noted := k.balancer.services["/api/v1/namespaces/"+ns+"/services/"+name], k.balancer.noted
		k.balancer.mu.Unlock()
		if s == nil {
			return fmt.Errorf("it does not know it: %w", noted)
		}
		if healthy := s.healthy(); len(healthy) < n || !s.listens() {
			return fmt.Errorf("it has %v of %d workers, and listens: %v", healthy, n, s.listens())
		}
		addr = s.addr
		return nil
	})
	return addr
}

// healthy are the workers that connections go to.
func (s *service) healthy() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		if s.targets[name].healthy {
			out = append(out, name)
		}
	}
	return out
}
