package adminsvc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// endsSoon is how long before its end a certificate is a matter for a warning;
// for short lives a quarter of the life counts.
const endsSoon = 7 * 24 * time.Hour

func (s *Service) serverStatusGet(ctx context.Context, _ admin.None) (admin.ServerStatus, error) {
	return s.ServerStatus(ctx)
}

func (s *Service) statusGet(ctx context.Context, _ admin.None) (admin.Status, error) {
	server, err := s.ServerStatus(ctx)
	if err != nil {
		return admin.Status{}, err
	}
	st := admin.Status{
		Mesh: s.Mesh, Version: s.Version, Server: server, Cores: map[string]int{},
		HighlyAvailable: server.HighlyAvailable,
	}
	u, err := s.usage(ctx)
	if err != nil {
		return st, err
	}
	routes, _, err := s.Store.Routes.List(ctx)
	if err != nil {
		return st, err
	}
	entries, _, err := s.Store.Entries.List(ctx)
	if err != nil {
		return st, err
	}
	known, err := s.nodes(ctx)
	if err != nil {
		return st, err
	}
	traffic, err := s.Store.Traffic(ctx)
	if err != nil {
		return st, err
	}
	st.Used = traffic.All
	cfg, err := s.configAsTold(ctx)
	if err != nil {
		return st, err
	}
	st.Members, st.Devices, st.Cells, st.Routes = len(u.members), len(u.devices), len(u.cells), len(routes)
	for _, c := range u.cores {
		st.Cores[string(c.State)]++
	}
	for _, e := range entries {
		if e.Revoked || !e.Pod.Gone.IsZero() {
			continue
		}
		st.Entries++
		if n := known.entry(e).Status; n != nil && n.Connected {
			st.EntriesOnline++
		}
	}
	if st.Rollouts, err = s.rollouts(ctx, u.cells); err != nil {
		return st, err
	}
	if st.Kubes, err = s.kubeLines(ctx); err != nil {
		return st, err
	}
	sub, err := s.subStatusGet(ctx, admin.None{})
	if err != nil {
		return st, err
	}
	alerts, _, err := s.Store.Alerts.List(ctx)
	if err != nil {
		return st, err
	}
	st.Alerts = map[string]int{}
	for _, a := range alerts {
		if a.State == mesh.AlertFiring {
			st.Alerts[string(a.Severity)]++
		}
	}
	ordering, err := s.orderWarnings(ctx, u)
	if err != nil {
		return st, err
	}
	st.Warnings = slices.Concat(
		s.serverWarnings(st, cfg),
		watchWarnings(u),
		s.coreWarnings(u, known, cfg),
		s.entryWarnings(st, entries, known, cfg),
		rolloutWarnings(st.Rollouts),
		s.statusWarnings(cfg, sub),
		ordering,
	)
	return st, nil
}

// soon says whether a certificate of that life ends soon.
func (s *Service) soon(end time.Time, life mesh.Duration) bool {
	return !end.IsZero() && end.Sub(s.now()) < min(endsSoon, time.Duration(life)/4)
}

func (s *Service) serverWarnings(st admin.Status, cfg mesh.Config) []string {
	var out []string
	if !st.HighlyAvailable {
		why := st.Server.Availability
		if why == "" || why == "one server" {
			why = "one management server; while it is down nothing can be changed and no node can join"
		}
		out = append(out, "not highly available: "+why)
	}
	out = append(out, st.Server.Problems...)
	for _, c := range st.Server.Certificates {
		if s.soon(c.Ends, cfg.CertLife.Mgmt) {
			out = append(out, fmt.Sprintf("certificate %s of this server ends at %s", c.What, c.Ends.UTC().Format(time.RFC3339)))
		}
	}
	if len(cfg.EntryAddresses) == 0 {
		out = append(out, "no address of an entry is configured, so device links cannot name one: meshctl admin config set entryAddresses=HOST:PORT")
	}
	return out
}

func (s *Service) coreWarnings(u usage, known nodes, cfg mesh.Config) []string {
	var out []string
	for _, c := range u.cores {
		node := nodeName(mesh.RoleCore, c.ID)
		switch {
		case c.State == mesh.CoreRevoked:
			continue
		case c.State == mesh.CoreLost, c.State == mesh.CoreJoined && c.Reason != "":
			out = append(out, fmt.Sprintf("core %s is %s: %s", c.Name, c.State, c.Reason))
		}
		out = append(out, s.nodeWarnings("core "+c.Name, node, known, cfg)...)
	}
	for _, c := range u.cells {
		if v := u.cell(c); c.State != mesh.CellRetired && v.Devices > 0 && v.CoresReady == 0 {
			out = append(out, fmt.Sprintf("cell %s has %s and no core that is ready", c.Name, some(v.Devices, "device")))
		}
	}
	slices.Sort(out)
	return out
}

func (s *Service) entryWarnings(st admin.Status, entries map[mesh.EntryID]mesh.Entry, known nodes, cfg mesh.Config) []string {
	var out []string
	for _, e := range entries {
		if e.Revoked || !e.Pod.Gone.IsZero() {
			continue
		}
		if n := known.entry(e).Status; n == nil || !n.Connected {
			out = append(out, "entry "+e.Name+" is offline")
		}
		out = append(out, s.nodeWarnings("entry "+e.Name, nodeName(mesh.RoleEntry, e.ID), known, cfg)...)
	}
	slices.Sort(out)
	if st.Entries == 0 {
		out = append(out, "no entry has joined: meshctl admin token create --role entry")
	} else if st.EntriesOnline == 0 {
		out = append(out, "no entry is connected")
	}
	return out
}

func (s *Service) nodeWarnings(what, node string, known nodes, cfg mesh.Config) []string {
	var out []string
	if end := known.ends[node]; s.soon(end, cfg.CertLife.Node) {
		out = append(out, fmt.Sprintf("the certificate of %s ends at %s", what, end.UTC().Format(time.RFC3339)))
	}
	if n := known.status(node); n != nil && n.Failure != "" {
		out = append(out, what+" does not run its configuration: "+n.Failure)
	}
	return out
}
