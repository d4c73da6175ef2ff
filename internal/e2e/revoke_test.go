package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// promised is when a revocation holds everywhere, with room for a busy machine:
// the promise itself is 2 s.
const promised = 10 * time.Second

// cutsOff does something to a client's way and measures until its open
// connection is cut and a new one is refused.
func cutsOff(t *testing.T, open *tunnel, again func() error, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if _, err := open.dies(promised); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	cut := time.Since(begin)
	eventually(t, promised, "new connections are refused", func() error {
		if again() == nil {
			return errors.New("one was served")
		}
		return nil
	})
	t.Logf("open connections cut after %v, new ones refused after %v", cut, time.Since(begin))
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	m := newMesh(t, dev.Settings{Cores: 2, Entries: 2})
	echo := echoServer(t)
	a, b := m.EntryAddresses[0], m.EntryAddresses[1]
	through := func(c client, entry string) func() error {
		return func() error { return c.tryEcho(t.Context(), entry, echo) }
	}
	served := func(t *testing.T, what string, try func() error) {
		t.Helper()
		eventually(t, patience, what, try)
	}

	t.Run("a device", func(t *testing.T) {
		c, other := addDevice(t, m, "stolen"), addDevice(t, m, "bystander")
		left := other.mustConnect(t, a, echo)
		cutsOff(t, c.mustConnect(t, a, echo), through(c, a), func() {
			call(t, m, admin.DeviceRevoke, admin.RevokeRequest{Ref: c.id, Reason: "stolen"})
		})
		if through(c, b)() == nil {
			t.Error("the other entry serves it")
		}
		if err := left.echo(setupTime); err != nil {
			t.Errorf("another device's connection: %v", err)
		}
	})
	t.Run("a device that is suspended, until it is resumed", func(t *testing.T) {
		c := addDevice(t, m, "unpaid")
		state := func(s mesh.DeviceState) func() {
			return func() { call(t, m, admin.DeviceSet, admin.DeviceSetRequest{Ref: c.id, State: &s}) }
		}
		cutsOff(t, c.mustConnect(t, a, echo), through(c, a), state(mesh.DeviceSuspended))
		state(mesh.DeviceActive)()
		served(t, "served again", through(c, a))
	})
	t.Run("a member's devices, until the member is resumed", func(t *testing.T) {
		call(t, m, admin.MemberAdd, admin.MemberAddRequest{Name: "Bob"})
		d := call(t, m, admin.DeviceAdd, admin.DeviceAddRequest{Member: "Bob", Name: "bobs", Cell: dev.CellName})
		c := clientOf(t, m, string(d.ID), call(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(d.ID)}))
		state := func(s mesh.MemberState) func() {
			return func() { call(t, m, admin.MemberSet, admin.MemberSetRequest{Ref: "Bob", State: &s}) }
		}
		cutsOff(t, c.mustConnect(t, a, echo), through(c, a), state(mesh.MemberSuspended))
		state(mesh.MemberActive)()
		served(t, "served again", through(c, a))
	})

	c := addDevice(t, m, "loyal")
	core, entry := coreOf(t, m, c), m.Entries[1]
	t.Run("an entry", func(t *testing.T) {
		cutsOff(t, c.mustConnect(t, b, echo), through(c, b), func() {
			call(t, m, admin.EntryRevoke, admin.RevokeRequest{Ref: entry.Name, Reason: "seized"})
		})
		if err := through(c, a)(); err != nil {
			t.Errorf("the other entry: %v", err)
		}
	})
	t.Run("a core", func(t *testing.T) {
		gone := func() error { // served by the other, at once
			if d := call(t, m, admin.DeviceGet, admin.Ref{Ref: c.id}); len(d.Via) == 1 {
				return fmt.Errorf("its routes name %v", d.Via)
			}
			return nil
		}
		cutsOff(t, c.mustConnect(t, a, echo), gone, func() {
			call(t, m, admin.CoreRevoke, admin.RevokeRequest{Ref: core.Name, Reason: "seized"})
		})
		if err := through(c, a)(); err != nil {
			t.Errorf("the other core: %v", err)
		}
	})
	t.Run("neither comes back when the server was away", func(t *testing.T) { // C-07
		kill(t, m.Mgmt)
		restart(t, m, m.Mgmt)
		m.Admin.ResetConnectBackoff()
		for _, p := range []*dev.Process{core, entry} {
			kill(t, p) // as a thief would start it
			if err := m.Start(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*dev.Process{core, entry} {
			if err := renew(t, m, p); err == nil {
				t.Errorf("%s renewed its certificate", p.Name)
			} else {
				t.Logf("%s is told: %v", p.Name, err)
			}
		}
		if err := renew(t, m, part(t, m, m.Entries[0].Name)); err != nil {
			t.Errorf("an entry that was not revoked: %v", err)
		}
		eventually(t, patience, "the good core is back", func() error { return through(c, a)() })
		if through(c, b)() == nil {
			t.Error("the revoked entry serves")
		}
		if v := call(t, m, admin.CoreGet, admin.Ref{Ref: core.Name}); v.State != mesh.CoreRevoked || v.Status != nil && v.Status.Connected {
			t.Errorf("the core is %s, status %+v", v.State, v.Status)
		}
		if v := call(t, m, admin.EntryGet, admin.Ref{Ref: entry.Name}); !v.Revoked || v.Status != nil && v.Status.Connected {
			t.Errorf("the entry: %+v, status %+v", v.Entry, v.Status)
		}
	})
}

// renew asks for a new certificate with what a thief finds in a node's folder.
func renew(t *testing.T, m *dev.Mesh, p *dev.Process) error {
	t.Helper()
	cert := tlsIdentity(t, p)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	folder, err := identity.OpenFolder(shortDir(t) + "/thief")
	if err != nil {
		t.Fatal(err)
	}
	pending, err := folder.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	cc, err := grpc.NewClient("passthrough:///"+m.Mgmt.Config["listen"].(string), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	resp, err := controlpb.NewRenewalClient(cc).Renew(t.Context(), &controlpb.RenewRequest{Csr: pending.CSR()})
	if err == nil && len(resp.GetChain()) == 0 {
		t.Errorf("%s: an empty answer for %v", p.Name, leaf.URIs)
	}
	return err
}
