package dev

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

type demoStep struct {
	what string
	run  func(context.Context) error
}

// Demo goes through the mesh's main job: fetch, lose the server that leads while
// clients are at work, lose a core, fetch again, revoke, be refused. It returns
// the first step that did not do as promised.
func (m *Mesh) Demo(ctx context.Context) error {
	client, err := Client(m.Link, m.EntryAddresses[0])
	if err != nil {
		return err
	}
	fetch := func(ctx context.Context) error { return Fetch(ctx, client, m.Origin.URL()) }
	steps := []demoStep{
		{"page fetched through entry and core", fetch},
		{"page fetched with what the subscription says", m.fetchAsSubscribed},
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		steps = append(steps, demoStep{"page fetched by curl through the other entry", func(ctx context.Context) error { return m.curl(ctx, curl) }})
	}
	if err := m.demoSteps(ctx, steps); err != nil {
		return err
	}
	if len(m.Servers) > 1 {
		if err := m.loseServer(ctx); err != nil {
			return m.withTails(err)
		}
	}
	return m.demoSteps(ctx, []demoStep{
		{"the core in use killed (SIGKILL)", m.killFirstHop},
		{"page fetched through the other core", fetch},
		{"device revoked", m.revoke},
		{"device refused", func(ctx context.Context) error { return m.refused(ctx, fetch) }},
	})
}

func (m *Mesh) demoSteps(ctx context.Context, steps []demoStep) error {
	for _, s := range steps {
		if err := m.step(ctx, s.what, s.run); err != nil {
			return m.withTails(err)
		}
	}
	return nil
}

func (m *Mesh) withTails(err error) error { return fmt.Errorf("%w\n%s", err, m.Tails()) }

// Tails are the last lines of every log, for whoever asks why a step failed.
func (m *Mesh) Tails() string {
	var b strings.Builder
	for _, p := range m.processes() {
		fmt.Fprintf(&b, "  %s:\n%s\n", p.Name, tail(p.Log, 8))
	}
	return b.String()
}

func (m *Mesh) curl(ctx context.Context, curl string) error {
	return Curl(ctx, curl, m.Link, m.CAFile(), m.EntryAddresses[len(m.EntryAddresses)-1], m.Origin.URL())
}

// killFirstHop kills the core that the device's route names first.
func (m *Mesh) killFirstHop(ctx context.Context) error {
	routes, err := admin.RouteGet.Call(ctx, m.Admin, admin.Ref{Ref: string(m.Link.ServerName)})
	if err != nil {
		return err
	}
	if len(routes.Items) != 1 || len(routes.Items[0].Hops) < 2 {
		return fmt.Errorf("dev: the route does not name two cores")
	}
	core, err := admin.CoreGet.Call(ctx, m.Admin, admin.Ref{Ref: routes.Items[0].Hops[0].ID})
	if err != nil {
		return err
	}
	for _, p := range m.Cores {
		if p.Name == core.Name {
			return p.Kill()
		}
	}
	return fmt.Errorf("dev: no process of core %q: %w", core.Name, mesh.ErrNotFound)
}

func (m *Mesh) revoke(ctx context.Context) error {
	_, err := admin.DeviceRevoke.Call(ctx, m.Admin, admin.RevokeRequest{Ref: string(m.Device.ID), Reason: "demo"})
	return err
}

// refused wants fetch to fail: the promise is within two seconds of revoking.
func (m *Mesh) refused(ctx context.Context, fetch func(context.Context) error) error {
	if err := fetch(ctx); err == nil {
		return errors.New("dev: a revoked device was served")
	}
	return nil
}
