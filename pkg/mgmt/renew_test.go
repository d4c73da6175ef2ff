package mgmt

import (
	"crypto/x509"
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// renew asks for the next certificate and returns it as a node.
func renew(t *testing.T, cc *grpc.ClientConn, id mesh.Identity) (*identity.Node, error) {
	t.Helper()
	key := identitytest.Key(t)
	resp, err := controlpb.NewRenewalClient(cc).Renew(t.Context(), &controlpb.RenewRequest{Csr: request(t, new(x509.CertificateRequest), key)})
	if err != nil {
		return nil, rpcstatus.From(err)
	}
	n, err := identity.NewNode(id, resp.GetChain(), key)
	if err != nil {
		t.Fatal(err)
	}
	return n, nil
}

func TestACertificateIsRenewedForTheSameIdentity(t *testing.T) {
	w := getWorld(t)
	for _, role := range []mesh.Role{mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin} {
		old := w.node(t, role)
		next, err := renew(t, as(t, w.addr.Mesh, old), old.Identity())
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		rec := call(t, admin.CertGet, w.local(t), admin.Ref{Ref: next.Leaf().SerialNumber.String()})
		if rec.Replaces != old.Leaf().SerialNumber.String() {
			t.Errorf("%s: the new certificate replaces %q", role, rec.Replaces)
		}
		// The old one is replaced, not revoked: it serves until its end.
		if _, err := renew(t, as(t, w.addr.Mesh, old), old.Identity()); err != nil {
			t.Errorf("%s: the old certificate: %v", role, err)
		}
		if _, err := renew(t, as(t, w.addr.Mesh, next), old.Identity()); err != nil {
			t.Errorf("%s: the new certificate: %v", role, err)
		}
	}
}

// C-07: who was revoked or removed does not renew, on a connection that is open
// and on a new one.
func TestWhoIsRevokedDoesNotRenew(t *testing.T) {
	w := getWorld(t)
	for name, take := range map[string]func(id, serial string){
		"revoked": func(id, _ string) { call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: id}) },
		"removed": func(id, _ string) {
			call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: id})
			call(t, admin.EntryRemove, w.local(t), admin.Ref{Ref: id})
		},
		"its certificate revoked": func(_, serial string) {
			call(t, admin.CertRevoke, w.local(t), admin.RevokeRequest{Ref: serial})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := w.node(t, mesh.RoleEntry)
			open := as(t, w.addr.Mesh, n)
			if _, err := renew(t, open, n.Identity()); err != nil {
				t.Fatal(err)
			}
			take(n.Identity().ID, n.Leaf().SerialNumber.String())
			for what, cc := range map[string]*grpc.ClientConn{"open": open, "new": as(t, w.addr.Mesh, n)} {
				if _, err := renew(t, cc, n.Identity()); err == nil {
					t.Errorf("renewed on the %s connection", what)
				}
			}
		})
	}
}

// An expired certificate opens nothing but renewal, and that within the grace.
func TestAnExpiredCertificateOpensRenewalAlone(t *testing.T) {
	w := getWorld(t)
	node := w.expired(t, mesh.RoleEntry)

	if _, err := renew(t, as(t, w.addr.Mesh, node), node.Identity()); err == nil {
		t.Error("renewed without a grace period")
	}
	configure(t, w, time.Hour)
	defer configure(t, w, 0)
	eventually(t, "the grace period is known", func() bool {
		_, err := renew(t, as(t, w.addr.Mesh, node), node.Identity())
		return err == nil
	})
	cc := as(t, w.addr.Mesh, node)
	for _, m := range []string{methodRange, methodTxn, methodWatch, methodConnect} {
		if !denied(t, cc, m) {
			t.Errorf("%s is open to an expired certificate", m)
		}
	}
}

func configure(t *testing.T, w *world, grace time.Duration) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"renewGrace": mesh.Duration(grace)})
	if err != nil {
		t.Fatal(err)
	}
	call(t, admin.ConfigSet, w.local(t), admin.ConfigSetRequest{Patch: patch})
}

// expired is a node on record whose certificate ended a moment ago. It is
// issued as the server would, since no test can wait a minute.
func (w *world) expired(t *testing.T, role mesh.Role) *identity.Node {
	t.Helper()
	n := w.node(t, role)
	key := identitytest.Key(t)
	chain, _, err := w.authority.Issue(t.Context(), ca.Request{Identity: n.Identity(), CSR: request(t, new(x509.CertificateRequest), key), Life: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	short, err := identity.NewNode(n.Identity(), chain, key)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the certificate ends", func() bool { return time.Now().After(short.Leaf().NotAfter) })
	return short
}
