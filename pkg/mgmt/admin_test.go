package mgmt

import (
	"crypto/ecdsa"
	"crypto/x509"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"crypto/rand"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhoeverOwnsTheServerIsOwnerOnTheSocket(t *testing.T) {
	w := getWorld(t)
	m := call(t, admin.MemberAdd, w.local(t), admin.MemberAddRequest{Name: unique("m")})
	audit := call(t, admin.AuditList, w.local(t), admin.AuditListRequest{Object: "member/" + string(m.ID)})
	if len(audit.Items) != 1 || !strings.HasPrefix(string(audit.Items[0].Actor), "local:") || !strings.HasPrefix(audit.Items[0].Request, "req-") {
		t.Errorf("audit: %+v", audit.Items)
	}
}

// An administrator's role is the one in the state at the time of the call, on a
// connection that is open too.
func TestARoleThatIsTakenAwayIsGoneAtTheNextCall(t *testing.T) {
	w := getWorld(t)
	n := w.node(t, mesh.RoleAdmin)
	cc := as(t, w.addr.Mesh, n)
	add := func() error {
		_, err := admin.MemberAdd.Call(t.Context(), cc, admin.MemberAddRequest{Name: unique("m")})
		return err
	}
	list := func() error {
		_, err := admin.MemberList.Call(t.Context(), cc, admin.Page{})
		return err
	}
	if err := add(); err != nil {
		t.Fatalf("an operator adds a member: %v", err)
	}
	call(t, admin.AdminSet, w.local(t), admin.AdminSetRequest{Ref: n.Identity().ID, Role: new(mesh.AdminAuditor)})
	if err := add(); mesh.Kind(err) != mesh.ErrDenied || mesh.Hint(err) == "" {
		t.Errorf("an auditor adds a member: %v, want denied and a hint", err)
	}
	if err := list(); err != nil {
		t.Errorf("an auditor lists members: %v", err)
	}
	call(t, admin.AdminRevoke, w.local(t), admin.RevokeRequest{Ref: n.Identity().ID})
	if err := list(); err == nil {
		t.Error("a revoked administrator lists members")
	}
}

// Whoever stole an intermediate can make certificates of every role; those of
// administrators and servers admit nobody, because they are not on record.
func TestACertificateThatIsNotOnRecordAdmitsNoAdministrator(t *testing.T) {
	w := getWorld(t)
	known := w.node(t, mesh.RoleAdmin).Identity()
	server := mesh.Identity{Mesh: w.keys.Mesh, Role: mesh.RoleMgmt, ID: string(w.keys.Server)}
	for _, id := range []mesh.Identity{known, server} {
		cc := as(t, w.addr.Mesh, w.forge(t, id))
		if _, err := admin.MemberList.Call(t.Context(), cc, admin.Page{}); err == nil {
			t.Errorf("a forged %s is let in", id.Role)
		}
		if _, err := renew(t, cc, id); err == nil {
			t.Errorf("a forged %s renews", id.Role)
		}
	}
	// A forged core is let in until the intermediate is revoked, but it cannot
	// make itself genuine.
	core := w.node(t, mesh.RoleCore).Identity()
	if _, err := renew(t, as(t, w.addr.Mesh, w.forge(t, core)), core); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("a forged core renews: %v", err)
	}
}

// forge signs with the server's intermediate and puts nothing on record.
func (w *world) forge(t *testing.T, id mesh.Identity) *identity.Node {
	t.Helper()
	key := identitytest.Key(t)
	uri, err := url.Parse(id.String())
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-mesh.Backdate), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, URIs: []*url.URL{uri},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, w.keys.intermediate, &key.PublicKey, w.keys.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	n, err := identity.NewNode(id, [][]byte{der, w.keys.intermediate.Raw, w.keys.root.Raw}, key)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
