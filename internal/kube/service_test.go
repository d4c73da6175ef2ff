//go:build kube

package kube

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// dialLimit is how long the balancer waits for a worker to take a connection.
const dialLimit = 3 * time.Second

// service is one Service at the balancer.
type service struct {
	balancer *balancer
	name     string // its path
	addr     netip.Addr
	stop     context.CancelFunc

	mu          sync.Mutex // guards what follows
	targets     map[string]*target
	ports       map[int]*port
	healthPort  int // of the workers' answer whether they have a pod; 0 asks nodePort
	nodePort    int // the first
	proxy       bool
	turn        int
	Connections int // that were forwarded
	Unserved    int // that no worker took
}

// target is a worker.
type target struct {
	addr    netip.Addr
	healthy bool
	fails   int
}

// port is a listener and where its connections go on the workers.
type port struct {
	ln       net.Listener
	nodePort int
}

// update takes over what the Service and the workers are now.
func (s *service) update(o object, nodes map[string]netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxy = o.text("metadata", "annotations", proxyAnnotation) == "v2"
	s.healthPort = o.number("spec", "healthCheckNodePort")
	maps.DeleteFunc(s.targets, func(name string, t *target) bool { return nodes[name] != t.addr })
	for name, addr := range nodes {
		if s.targets[name] == nil {
			s.targets[name] = &target{addr: addr, fails: checkFails}
		}
	}
	s.nodePort = o.number("spec", "ports", 0, "nodePort")
	if !s.anyHealthy() { // who connects is refused
		s.refuse()
		return
	}
	for _, p := range o.list("spec", "ports") {
		number, nodePort := p.number("port"), p.number("nodePort")
		if known := s.ports[number]; known != nil {
			known.nodePort = nodePort
			continue
		}
		ln, err := s.balancer.Listen(at(s.addr, number))
		if err != nil {
			continue // the next look tries again
		}
		added := &port{ln: ln, nodePort: nodePort}
		s.ports[number] = added
		s.balancer.wg.Go(func() { s.accept(added) })
	}
}

func (s *service) anyHealthy() bool {
	for _, t := range s.targets {
		if t.healthy {
			return true
		}
	}
	return false
}

func (s *service) listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ports) > 0
}

// refuse stops listening; called with the lock.
func (s *service) refuse() {
	for number, p := range s.ports {
		p.ln.Close()
		delete(s.ports, number)
	}
}

func (s *service) end() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse()
}

// check asks every worker in turns until ctx ends.
func (s *service) check(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		var wg sync.WaitGroup
		s.mu.Lock()
		for _, t := range s.targets {
			ask := s.ask(t)
			wg.Go(func() { s.judge(t, ask(ctx)) })
		}
		s.mu.Unlock()
		wg.Wait()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask is how a worker is checked; called with the lock.
func (s *service) ask(t *target) func(context.Context) error {
	if s.healthPort != 0 {
		url := "http://" + at(t.addr, s.healthPort)
		return func(ctx context.Context) error { return s.balancer.healthy(ctx, url) }
	}
	addr := at(t.addr, s.nodePort)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkEvery)
		defer cancel()
		c, err := s.balancer.Dial(ctx, "", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

func (b *balancer) healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (s *service) judge(t *target, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		t.fails, t.healthy = 0, true
		return
	}
	t.fails++
	t.healthy = t.healthy && t.fails < checkFails
}

func (s *service) accept(p *port) {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return // it was closed
		}
		s.balancer.wg.Go(func() { s.forward(c, p) })
	}
}

// forward takes one connection to the worker whose turn it is. As with a balancer
// of packets, a worker that does not take it is not replaced by another.
func (s *service) forward(client net.Conn, p *port) {
	defer client.Close()
	addr, proxy := s.next(p)
	if addr == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	worker, err := s.balancer.Dial(ctx, "", addr)
	if err == nil && proxy {
		_, err = worker.Write(proxyHeader(client))
	}
	s.mu.Lock()
	if s.Connections++; err != nil {
		s.Unserved++
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	defer worker.Close()
	var wg sync.WaitGroup
	wg.Go(func() { copyHalf(worker, client) })
	copyHalf(client, worker)
	wg.Wait()
}

// next is the port of the worker whose turn it is.
func (s *service) next(p *port) (addr string, proxy bool) {
	healthy := s.healthy()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(healthy) == 0 {
		s.Connections++
		s.Unserved++
		return "", false
	}
	s.turn++
	t := s.targets[healthy[s.turn%len(healthy)]]
	if t == nil { // it has gone this moment
		return "", false
	}
	return at(t.addr, p.nodePort), s.proxy
}

// copyHalf carries one direction. Its end is passed on, and a failure ends both.
func copyHalf(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite() // the other side may have gone
	}
}

// proxyHeader is version 2 of the PROXY protocol: who connects, to where.
func proxyHeader(c net.Conn) []byte {
	from, to := c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort()
	out := slices.Concat([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), from.Addr().Unmap().AsSlice(), to.Addr().Unmap().AsSlice())
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, from.Port()), to.Port())
}

// counts are the connections so far, and how many no worker took.
func (s *service) counts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d connections through the balancer, %d of them not taken", s.Connections, s.Unserved)
}
