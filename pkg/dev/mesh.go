package dev

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Settings are how a dev mesh is made.
type Settings struct {
	Binary  string // the meshctl to run
	Dir     string // everything it writes
	Servers int    // management servers, 1 or 3; 0: 1
	Cores   int
	Entries int
	// Step is told each step and how long it took.
	Step func(what string, took time.Duration)
	// Say is told what was measured, in a line.
	Say func(line string)
	// Forward makes every core pass its clients on to this host:port instead of
	// being a proxy; "" is a proxy.
	Forward string
	// Configure, when set, may change the configuration of each part before its
	// first start.
	Configure func(part string, config map[string]any)
}

// Mesh is a running dev mesh.
type Mesh struct {
	Settings
	Servers []*Process
	Mgmt    *Process // the first of Servers
	Cores   []*Process
	Entries []*Process
	// EntryAddresses are host:port of the entries, in their order.
	EntryAddresses []string
	Origin         *Origin
	// Admin is the socket of the first server, and after the demo has killed a
	// server that of one which was not.
	Admin  *grpc.ClientConn
	Device admin.DeviceView
	Link   admin.DeviceLink
	// Subscription is the link from which the device's client learns all that is
	// in Link.
	Subscription mesh.Secret

	sockets  []*grpc.ClientConn // of Servers
	lock     *os.File
	launcher *launcher
	started  time.Time
}

// Names of what a dev mesh is made with.
const (
	CellName   = "demo"
	CellSuffix = "demo.test"
	MemberName = "Alice"
	DeviceName = "laptop"

	secondMember = "Bob" // added by the demo
)

const (
	startPatience = time.Minute
	stopPatience  = 10 * time.Second
	// handOver is for one of several servers that stop together. The leader offers
	// its place to one that goes as well, and would wait for that in vain.
	handOver = 2 * time.Second
)

// Up starts everything and returns when a client could be served. On an error
// what was started is stopped again. When ctx ends meanwhile and nothing is
// left, the error is that of ctx. The caller calls Close.
func Up(ctx context.Context, s Settings) (_ *Mesh, err error) {
	lock, err := claim(s.Dir)
	if err != nil {
		return nil, err
	}
	if s.Servers == 0 {
		s.Servers = 1
	}
	m := &Mesh{Settings: s, lock: lock, launcher: newLauncher(), started: time.Now()}
	defer func() {
		if err == nil {
			return
		}
		if stopped := ctx.Err(); stopped != nil {
			err = stopped
			if fault := m.Close(); fault != nil {
				err = fault
			}
			return
		}
		err = errors.Join(err, m.Close())
	}()
	if err := m.save(); err != nil { // before anything else, so that remains of it are known as ours
		return nil, err
	}
	for _, stage := range []func(context.Context) error{m.startServers, m.startCores, m.startEntries, m.addDevice, m.addSubscription} {
		if err := stage(ctx); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// step runs and reports one step, with a deadline of its own.
func (m *Mesh) step(ctx context.Context, what string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("dev: %s: not done within %v", what, startPatience))
	defer cancel()
	begin := time.Now()
	if err := run(ctx); err != nil {
		return fmt.Errorf("not done: %s: %w", what, err)
	}
	if m.Step != nil {
		m.Step(what, time.Since(begin))
	}
	return nil
}

// Close stops the parts in reverse order and removes the folder. Every part is
// stopped, whatever the others' errors.
func (m *Mesh) Close() error {
	var errs []error
	for _, cc := range m.sockets {
		errs = append(errs, cc.Close())
	}
	for _, group := range [][]*Process{m.Entries, m.Cores} {
		errs = append(errs, stopAll(group, (*Process).stop))
	}
	stop := (*Process).stop
	if len(m.Servers) > 1 {
		stop = (*Process).end
	}
	errs = append(errs, stopAll(m.Servers, stop))
	if m.Origin != nil {
		errs = append(errs, m.Origin.Close())
	}
	m.launcher.close()
	errs = append(errs, remove(m.Dir), m.lock.Close())
	return errors.Join(errs...)
}

// stopAll stops processes at once and waits for all.
func stopAll(group []*Process, stop func(*Process) error) error {
	results := make(chan error, len(group))
	for _, p := range group {
		go func() {
			if p == nil || p.cmd == nil || p.cmd.Process == nil {
				results <- nil
				return
			}
			results <- stop(p)
		}()
	}
	var errs []error
	for range group {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// launch starts a part for the first time and waits until it is ready.
func (m *Mesh) launch(ctx context.Context, p *Process, args ...string) error {
	p.args = args
	if err := m.Start(p); err != nil {
		return err
	}
	return p.Ready(ctx)
}

// configure sets the part's configuration.
func (m *Mesh) configure(p *Process, config map[string]any) {
	if m.Configure != nil {
		m.Configure(p.Name, config)
	}
	p.Config = config
}

// enroll runs a command of the part that ends by itself.
func (m *Mesh) enroll(ctx context.Context, p *Process, args ...string) error {
	p.args = args
	if err := m.Start(p); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil {
		return fmt.Errorf("dev: %s ended: %w\n%s", p.Name, p.err, tail(p.Log, 12))
	}
	return nil
}

// Start starts a part that does not run, as it was started first but for what
// its Config now says.
func (m *Mesh) Start(p *Process) error {
	if err := p.configure(); err != nil {
		return err
	}
	if err := m.launcher.spawn(m.Binary, p); err != nil {
		return err
	}
	return m.save()
}

func (m *Mesh) save() error {
	s := State{PID: os.Getpid(), Started: m.started, Socket: m.SocketPath()}
	for _, p := range m.processes() {
		s.Parts = append(s.Parts, Part{Name: p.Name, PID: p.PID(), Log: p.Log, Health: p.Health})
	}
	return s.save(m.Dir)
}

func (m *Mesh) processes() []*Process {
	var out []*Process
	for _, group := range [][]*Process{m.Servers, m.Cores, m.Entries} {
		for _, p := range group {
			if p != nil && p.cmd != nil && p.cmd.Process != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// host is an address of loopback for this folder alone, where nothing but this
// dev mesh listens.
func (m *Mesh) host() netip.Addr {
	h := fnv.New32a()
	h.Write([]byte(m.Dir)) // never fails
	sum := h.Sum(nil)
	return netip.AddrFrom4([4]byte{127, 64 | sum[0]&63, sum[1], 1 + sum[2]%254})
}

// freePorts returns n addresses on host for parts to listen on, at their first
// start and at any other.
func (m *Mesh) freePorts(n int) ([]string, error) {
	claimed, err := freeport.Claim(m.host(), n)
	if err != nil {
		return nil, fmt.Errorf("dev: %w", err)
	}
	var addrs []string
	for _, a := range claimed {
		addrs = append(addrs, a.String())
	}
	return addrs, nil
}

// token makes a join token and writes it to a file that only its node reads.
func (m *Mesh) token(ctx context.Context, p *Process, req admin.TokenCreateRequest) (string, error) {
	t, err := admin.TokenCreate.Call(ctx, m.Admin, req)
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.Dir, "token")
	if err := os.WriteFile(file, []byte(t.Token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("dev: %s: %w", p.Name, err)
	}
	return file, nil
}

// waitCore waits until management says that core is ready.
func (m *Mesh) waitCore(ctx context.Context, name string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		core, err := admin.CoreGet.Call(ctx, m.Admin, admin.Ref{Ref: name})
		if err != nil {
			return err
		}
		if core.State == mesh.CoreReady {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dev: core %s stays %s: %s: %w", name, core.State, core.Reason, mesh.ErrUnavailable)
		case <-tick.C:
		}
	}
}
