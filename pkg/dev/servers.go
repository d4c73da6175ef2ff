package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// portsOfServer is how many addresses a server takes.
const portsOfServer = 5

// serverName is that of a server alone "mgmt", of several "mgmt-a", "mgmt-b", …
func (m *Mesh) serverName(i int) string {
	if m.Settings.Servers == 1 {
		return "mgmt"
	}
	return "mgmt-" + letters[i:i+1]
}

// startServers founds the mesh, on one server or on all together.
func (m *Mesh) startServers(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(m.Dir, "logs"), 0o700); err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	origin, err := NewOrigin()
	if err != nil {
		return err
	}
	m.Origin = origin
	if err := m.prepareServers(); err != nil {
		return err
	}
	if m.Settings.Servers == 1 {
		return m.step(ctx, "management server founded the mesh", func(ctx context.Context) error { return m.launch(ctx, m.Mgmt, "mgmt", "serve") })
	}
	return m.foundTogether(ctx)
}

// prepareServers makes folders, secrets and configurations.
func (m *Mesh) prepareServers() error {
	n := m.Settings.Servers
	ports, err := m.freePorts(n*portsOfServer + m.Settings.Entries)
	if err != nil {
		return err
	}
	m.EntryAddresses = ports[n*portsOfServer:]
	passphrase, err := m.secretFile("passphrase", mesh.NewSecret(24))
	if err != nil {
		return err
	}
	bootstrap, err := m.secretFile("bootstrap-secret", mesh.NewSecret(32))
	if err != nil {
		return err
	}
	if err := m.makeCertificate(); err != nil {
		return err
	}
	subCert, subKey := m.subscriptionFiles()
	var peers []string
	for i := range n {
		peers = append(peers, ports[i*portsOfServer+4])
	}
	for i := range n {
		own := ports[i*portsOfServer:]
		p, err := newProcess(m.Dir, m.serverName(i), own[3])
		if err != nil {
			return err
		}
		m.Servers = append(m.Servers, p)
		socket, err := admin.DialSocket(m.socketOf(p.Name))
		if err != nil {
			return err
		}
		m.sockets = append(m.sockets, socket)
		config := map[string]any{
			"dir":             filepath.Join(p.Dir, "data"),
			"name":            p.Name,
			"listen":          own[0],
			"socket":          m.socketOf(p.Name),
			"metrics-listen":  own[3],
			"gossip-listen":   own[4],
			"passphrase-file": passphrase,
			"etcd":            map[string]any{"client-listen": own[1], "peer-listen": own[2]},
			"subscription":    map[string]any{"cert-file": subCert, "key-file": subKey},
			"founding":        map[string]any{"allowed-addresses": []string{"127.0.0.0/8"}, "entry-addresses": m.EntryAddresses},
		}
		if n > 1 {
			config["bootstrap-expect"], config["peers"], config["bootstrap-secret-file"] = n, peers, bootstrap
		}
		m.configure(p, config)
	}
	m.Mgmt, m.Admin = m.Servers[0], m.sockets[0]
	return nil
}

func (m *Mesh) secretFile(name string, s mesh.Secret) (string, error) {
	file := filepath.Join(m.Dir, name)
	if err := os.WriteFile(file, []byte(s.Reveal()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("dev: %w", err)
	}
	return file, nil
}

// foundTogether starts all servers at once and tells how they come in: the first
// founds, the others get their vote one after the other, in any order.
func (m *Mesh) foundTogether(ctx context.Context) error {
	left := slices.Clone(m.Servers)
	next := func(ctx context.Context) error {
		up, err := anyReady(ctx, left)
		left = slices.DeleteFunc(left, func(p *Process) bool { return p == up })
		return err
	}
	for _, s := range []demoStep{
		{"first of three servers founded the mesh", func(ctx context.Context) error {
			if err := m.startTogether(); err != nil {
				return err
			}
			return next(ctx)
		}},
		{"second server let in, its etcd votes", next},
		{"third server let in, its etcd votes", next},
		{"all agree: any one of them may fail", m.allWell},
	} {
		if err := m.step(ctx, s.what, s.run); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mesh) startTogether() error {
	for _, p := range m.Servers {
		p.args = []string{"mgmt", "serve"}
		if err := m.Start(p); err != nil {
			return err
		}
	}
	return nil
}

// anyReady waits until one of the processes is ready, and returns it.
func anyReady(ctx context.Context, of []*Process) (*Process, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, p := range of {
			if p.Exited() {
				return nil, p.ended()
			}
			if soon(ctx, p) {
				return p, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dev: %s is not ready: %w: %w\n%s", of[0].Name, context.Cause(ctx), mesh.ErrUnavailable, tail(of[0].Log, 12))
		case <-tick.C:
		}
	}
}

// soon says whether a server is ready. One that founds has its port and does not
// answer there yet, and is not waited for while others are.
func soon(ctx context.Context, p *Process) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	return answers(ctx, "http://"+p.Health+"/readyz")
}

// allWell waits until every server says that any one of them may fail.
func (m *Mesh) allWell(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) error {
		for i, p := range m.Servers {
			s, err := admin.ServerStatusGet.Call(ctx, m.sockets[i], admin.None{})
			if err != nil {
				return err
			}
			if !s.HighlyAvailable || len(s.Problems) > 0 {
				return fmt.Errorf("dev: %s says: %s %q: %w", p.Name, s.Availability, s.Problems, mesh.ErrUnavailable)
			}
		}
		return nil
	})
}

// tryTime bounds one try of until.
const tryTime = time.Second

// until tries again and again until try succeeds. When ctx ends, the error is
// that of the last try.
func until(ctx context.Context, try func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := once(ctx, try)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func once(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return try(ctx)
}
