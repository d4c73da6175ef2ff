package dev

import (
	"context"
	"os"
	"path/filepath"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	letters = "abcdefgh"
	drain   = "3s" // whoever stops a dev mesh does not wait for its clients
)

func (m *Mesh) startCores(ctx context.Context) error {
	if err := m.step(ctx, "cell and member added", m.addCellAndMember); err != nil {
		return err
	}
	for i := range m.Settings.Cores {
		name := "core-" + letters[i:i+1]
		err := m.step(ctx, name+" joined by token, ready", func(ctx context.Context) error { return m.AddCore(ctx, name, CellName) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Mesh) addCellAndMember(ctx context.Context) error {
	if _, err := admin.CellAdd.Call(ctx, m.Admin, admin.CellAddRequest{Name: CellName, Suffix: CellSuffix}); err != nil {
		return err
	}
	if _, err := admin.MemberAdd.Call(ctx, m.Admin, admin.MemberAddRequest{Name: MemberName}); err != nil {
		return err
	}
	return m.nameSubscription(ctx)
}

// AddCore lets one more core in, and returns when it is ready.
func (m *Mesh) AddCore(ctx context.Context, name, cell string) error {
	ports, err := m.freePorts(2)
	if err != nil {
		return err
	}
	p, err := newProcess(m.Dir, name, ports[1])
	if err != nil {
		return err
	}
	m.Cores = append(m.Cores, p)
	token, err := m.token(ctx, p, admin.TokenCreateRequest{Role: mesh.RoleCore, Name: name, Member: MemberName, Cell: cell})
	if err != nil {
		return err
	}
	m.configure(p, map[string]any{
		"dir":            filepath.Join(p.Dir, "data"),
		"listen":         ports[0],
		"advertise":      []string{ports[0]},
		"metrics-listen": ports[1],
		"egress":         m.egress(),
		"drain":          drain,
	})
	// Not `core join` alone, which goes on as `core run`: the parent-death signal
	// does not survive that, since a thread without it calls exec.
	if err := m.enroll(ctx, p, "core", "join", "--token-file", token, "--enroll-only"); err != nil {
		return err
	}
	if err := m.launch(ctx, p, "core", "run"); err != nil {
		return err
	}
	return m.waitCore(ctx, name)
}

// egress lets cores reach the demo page on loopback and nothing else there.
func (m *Mesh) egress() map[string]any {
	if m.Forward != "" {
		return map[string]any{"kind": "forward", "forward": m.Forward}
	}
	return map[string]any{"kind": "proxy", "allow": []string{m.Origin.Prefix()}}
}

func (m *Mesh) startEntries(ctx context.Context) error {
	for i, addr := range m.EntryAddresses {
		name := "entry-" + letters[i:i+1]
		err := m.step(ctx, name+" enrolled by token, ready", func(ctx context.Context) error { return m.startEntry(ctx, name, addr) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Mesh) startEntry(ctx context.Context, name, addr string) error {
	ports, err := m.freePorts(1)
	if err != nil {
		return err
	}
	p, err := newProcess(m.Dir, name, ports[0])
	if err != nil {
		return err
	}
	m.Entries = append(m.Entries, p)
	token, err := m.token(ctx, p, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: name})
	if err != nil {
		return err
	}
	m.configure(p, map[string]any{
		"dir":            filepath.Join(p.Dir, "data"),
		"listen":         addr,
		"metrics-listen": ports[0],
		"token-file":     token,
		"limits":         map[string]any{"connections": 2048, "per-source": 2048, "hellos": 1024}, // of modest machines
		"drain":          map[string]any{"limit": drain},
	})
	return m.launch(ctx, p, "entry", "run")
}

func (m *Mesh) addDevice(ctx context.Context) error {
	return m.step(ctx, "device added, every core knows it", func(ctx context.Context) (err error) {
		m.Device, err = admin.DeviceAdd.Call(ctx, m.Admin, admin.DeviceAddRequest{Member: MemberName, Name: DeviceName, Cell: CellName})
		if err != nil {
			return err
		}
		m.Link, err = admin.DeviceLinkOf.Call(ctx, m.Admin, admin.Ref{Ref: string(m.Device.ID)})
		if err != nil {
			return err
		}
		return os.WriteFile(m.CAFile(), []byte(m.Link.CA), 0o644)
	})
}

func (m *Mesh) addSubscription(ctx context.Context) error {
	return m.step(ctx, "device subscribed through an entry", m.subscribe)
}

// CAFile is where the cell's CA is, for clients.
func (m *Mesh) CAFile() string { return filepath.Join(m.Dir, "ca.pem") }
