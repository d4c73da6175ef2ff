//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Names of what these tests add to the mesh.
const (
	otherCell, otherSuffix = "rotterdam", "b.example.net"
	otherMember            = "Mallory"
)

// others adds a member, a cell, a core of that cell and an entry, and takes them
// out of the mesh when the test ends.
func (l *Lab) others(t *testing.T) (core, entry *Host) {
	t.Helper()
	must(t, l, admin.CellAdd, admin.CellAddRequest{Name: otherCell, Suffix: otherSuffix})
	must(t, l, admin.MemberAdd, admin.MemberAddRequest{Name: otherMember})
	core, entry = l.extra(t, "core-x", 38), l.extra(t, "entry-x", 28)
	core.Config = map[string]any{"dir": core.Data(), "egress": map[string]any{"kind": "proxy", "allow": []string{l.Origin.Addr.String() + "/32"}}}
	entry.Config = map[string]any{"dir": entry.Data()}
	l.JoinCore(t, core, otherMember, otherCell)
	l.JoinEntry(t, entry)
	return core, entry
}

func (l *Lab) extra(t *testing.T, name string, last byte) *Host {
	t.Helper()
	h := l.newHost(t, name, last)
	t.Cleanup(func() {
		if h.Running() {
			h.Kill(t)
		}
	})
	return h
}

func (l *Lab) served(t *testing.T, c *Client, entries ...*Host) {
	t.Helper()
	for _, e := range entries {
		l.WaitFor(t, patience, "served through "+e.Name, func() error { return c.Try(t.Context(), e) })
	}
}

// C-08. Whoever is revoked is cut off everywhere, with all that is open.
func TestRevocation(t *testing.T) {
	l := theLab(t)
	core, entry := l.others(t)
	everywhere := append(slices.Clone(l.Entries), entry)
	c := l.clientIn(t, otherMember, otherCell)
	l.served(t, c, everywhere...)

	t.Run("member", func(t *testing.T) {
		state := func(s mesh.MemberState) func() {
			return func() { must(t, l, admin.MemberSet, admin.MemberSetRequest{Ref: otherMember, State: &s}) }
		}
		l.measure(t, revocation{"a member, suspended", c.tunnels(t, 10, everywhere...), c.refusedAt(everywhere...), state(mesh.MemberSuspended)})
		state(mesh.MemberActive)()
		l.served(t, c, everywhere...)
	})
	t.Run("device", func(t *testing.T) {
		stolen := l.clientIn(t, otherMember, otherCell)
		l.served(t, stolen, everywhere...)
		l.measure(t, revocation{"a device", stolen.tunnels(t, 10, everywhere...), stolen.refusedAt(everywhere...), func() {
			must(t, l, admin.DeviceRevoke, admin.RevokeRequest{Ref: string(stolen.Device.ID), Reason: "stolen"})
		}})
		l.served(t, c, everywhere...)
	})
	t.Run("administrator", func(t *testing.T) { l.revokeAdmin(t) })
	t.Run("entry", func(t *testing.T) {
		r := revocation{"an entry", c.tunnels(t, 100, entry), c.refusedAt(entry), func() {
			must(t, l, admin.EntryRevoke, admin.RevokeRequest{Ref: entry.Name, Reason: "seized"})
		}}
		r.with(t, entry.identity(t), append(l.meshPorts(entry), append(l.relayPorts(entry, identity.ProtoRelay), relayPort(entry, core, identity.ProtoRelay))...)...)
		l.measure(t, r)
		l.audited(t, "entry.revoke")
		l.served(t, c, l.Entries...)
	})
	t.Run("core", func(t *testing.T) {
		r := revocation{"a core", c.tunnels(t, 50, l.Entries...), c.refusedAt(l.Entries...), func() {
			must(t, l, admin.CoreRevoke, admin.RevokeRequest{Ref: core.Name, Reason: "seized"})
		}}
		r.with(t, core.identity(t), l.meshPorts(core)...)
		l.measure(t, r)
		l.audited(t, "core.revoke")
	})
	t.Run("after a restart of management", func(t *testing.T) { l.revokedAfterRestart(t, core, entry) })
	t.Run("node that was away", func(t *testing.T) { l.revokeAway(t, entry) })
	t.Run("banned", func(t *testing.T) { l.ban(t, core, entry) })
}

func (l *Lab) audited(t *testing.T, action string) {
	t.Helper()
	records := must(t, l, admin.AuditList, admin.AuditListRequest{Page: admin.Page{Limit: 20}})
	if !slices.ContainsFunc(records.Items, func(r mesh.AuditRecord) bool { return r.Action == action && r.Actor != "" }) {
		t.Errorf("the audit has no %s", action)
	}
}

func (l *Lab) revokeAdmin(t *testing.T) {
	t.Helper()
	h := l.extra(t, "admin-x", 48)
	token := l.Token(t, admin.TokenCreateRequest{Role: mesh.RoleAdmin, Name: "Trudy", Grant: mesh.AdminOperator})
	if out, err := h.Run(h.Command(t.Context(), "admin", "login", "--token-file", token)); err != nil {
		t.Fatal(out, err)
	}
	if out, err := h.Run(h.Command(t.Context(), "admin", "member", "list")); err != nil {
		t.Fatal(out, err)
	}
	r := revocation{"an administrator", nil, map[string]func(context.Context) error{}, func() {
		must(t, l, admin.AdminRevoke, admin.RevokeRequest{Ref: "Trudy", Reason: "left"})
	}}
	r.with(t, h.identity(t), l.meshPorts(h)...)
	l.measure(t, r)
	if out, err := h.Run(h.Command(t.Context(), "admin", "member", "list")); err == nil {
		t.Errorf("the command still works: %s", out)
	}
}

// C-07: who was revoked renews at no server, when all have been restarted neither.
func (l *Lab) revokedAfterRestart(t *testing.T, revoked ...*Host) {
	t.Helper()
	for _, h := range l.Mgmt {
		h.Kill(t)
	}
	for _, h := range l.Mgmt {
		h.Start(t)
	}
	l.WaitFor(t, patience, "management is back", func() error { return l.serversWell(t.Context()) })
	for _, h := range revoked {
		for _, d := range l.meshPorts(l.Stranger) {
			if err := d.refuses(t.Context(), h.identity(t)); err != nil {
				t.Errorf("%s, which was revoked before: %v", h.Name, err)
			}
		}
	}
	for _, d := range l.meshPorts(l.Stranger) {
		if err := d.try(t.Context(), l.Cores[0].identity(t)); err != nil {
			t.Errorf("a core that was not revoked: %v", err)
		}
	}
	l.Note("all servers are restarted after a core and an entry were revoked", "refused by each, renewal too")
}

// revokeAway revokes an entry that cannot hear of it. It joins again first, under
// its old name, which whoever was revoked and removed may.
func (l *Lab) revokeAway(t *testing.T, entry *Host) {
	t.Helper()
	must(t, l, admin.EntryRemove, admin.Ref{Ref: entry.Name})
	l.rejoinEntry(t, entry)
	c := l.NewClient(t, memberName)
	l.served(t, c, entry)
	cert := entry.identity(t)
	l.Cut(t, entry)
	must(t, l, admin.EntryRevoke, admin.RevokeRequest{Ref: entry.Name, Reason: "seized"})
	<-time.After(3 * time.Second)
	l.Heal(t)
	begin := time.Now()
	for _, d := range append(l.meshPorts(entry), l.relayPorts(entry, identity.ProtoRelay)...) {
		if err := d.refuses(t.Context(), cert); err != nil {
			t.Errorf("an entry that was away when it was revoked: %v", err)
		}
	}
	for place, refused := range c.refusedAt(entry) {
		l.untilRefused(t, place, begin, refused)
	}
	back := time.Since(begin)
	entry.Kill(t)
	from := entry.logged(t)
	entry.Start(t)
	l.WaitFor(t, patience, "it is refused by every server", func() error {
		log := string(entry.logSince(t, from))
		for _, h := range l.Mgmt {
			if !strings.Contains(log, h.At(8443)+": the server refused this node's certificate") {
				return fmt.Errorf("not by %s", h.Name)
			}
		}
		return nil
	})
	if v := must(t, l, admin.EntryGet, admin.Ref{Ref: entry.Name}); v.Status != nil && v.Status.Connected {
		t.Error("it is connected")
	}
	l.Note("an entry is revoked while it is cut off, and comes back", "refused by each server, core and for each client, %s after it was back", seconds(back))
}

func (h *Host) logged(t *testing.T) int { return len(h.logSince(t, 0)) }

func (h *Host) logSince(t *testing.T, from int) []byte {
	t.Helper()
	data, err := os.ReadFile(h.Log())
	if err != nil {
		t.Fatal(err)
	}
	return data[from:]
}

// rejoinEntry lets an entry in anew, with an empty folder.
func (l *Lab) rejoinEntry(t *testing.T, entry *Host) {
	t.Helper()
	if entry.Running() {
		entry.Kill(t)
	}
	if err := os.RemoveAll(entry.Data()); err != nil {
		t.Fatal(err)
	}
	l.JoinEntry(t, entry)
	l.WaitFor(t, patience, entry.Name+" is ready", func() error { return entry.Ready(t.Context()) })
}

// ban wants no token for who is banned, until its record is removed.
func (l *Lab) ban(t *testing.T, core, entry *Host) {
	t.Helper()
	must(t, l, admin.EntryRemove, admin.Ref{Ref: entry.Name})
	left := must(t, l, admin.TokenCreate, admin.TokenCreateRequest{Role: mesh.RoleEntry, Name: entry.Name})
	unused := l.secretFile(t, "token-unused", left.Token)
	l.rejoinEntry(t, entry)
	must(t, l, admin.EntryRevoke, admin.RevokeRequest{Ref: entry.Name, Ban: true})
	must(t, l, admin.CoreRemove, admin.Ref{Ref: core.Name})
	core.Kill(t)
	if err := os.RemoveAll(core.Data()); err != nil {
		t.Fatal(err)
	}
	l.JoinCore(t, core, otherMember, otherCell)
	must(t, l, admin.CoreRevoke, admin.RevokeRequest{Ref: core.Name, Ban: true})
	for _, req := range []admin.TokenCreateRequest{
		{Role: mesh.RoleEntry, Name: entry.Name},
		{Role: mesh.RoleCore, Name: "another", Member: otherMember, Cell: otherCell},
	} {
		if _, err := call(t.Context(), l, admin.TokenCreate, req); !errors.Is(err, mesh.ErrConflict) && !errors.Is(err, mesh.ErrExists) {
			t.Errorf("a token for a banned %s: %v; want a refusal", req.Role, err)
		}
	}
	entry.Kill(t)
	if err := os.RemoveAll(entry.Data()); err != nil {
		t.Fatal(err)
	}
	entry.Config["token-file"] = unused
	entry.Start(t)
	l.WaitFor(t, patience, "the token it still had is refused", func() error {
		if entry.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	if code := entry.role.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with %d", code)
	}
	must(t, l, admin.EntryRemove, admin.Ref{Ref: entry.Name})
	must(t, l, admin.CoreRemove, admin.Ref{Ref: core.Name})
	for _, req := range []admin.TokenCreateRequest{
		{Role: mesh.RoleEntry, Name: entry.Name},
		{Role: mesh.RoleCore, Name: "another", Member: otherMember, Cell: otherCell},
	} {
		if _, err := call(t.Context(), l, admin.TokenCreate, req); err != nil {
			t.Errorf("a token for a %s whose ban was lifted: %v", req.Role, err)
		}
	}
}
