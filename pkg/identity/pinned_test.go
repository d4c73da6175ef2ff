package identity_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestPinnedTLS(t *testing.T) {
	m := identitytest.New(t)
	other := identitytest.New(t)
	mgmt := m.Identity(mesh.RoleMgmt)
	// Somebody in the server's place shows the right root, which is public, above
	// a leaf of their own.
	impostor := other.Certificate(t, other.Identity(mesh.RoleMgmt))
	impostor.Certificate = append(impostor.Certificate, m.Root.Raw)
	tests := map[string]struct {
		server *tls.Config
		hash   [32]byte
		ok     bool
	}{
		"the mesh of the token":               {m.NodeAs(t, mgmt).ServerTLS(identity.Policy{Anonymous: true}, identity.ProtoGRPC), m.RootHash(), true},
		"another mesh":                        {other.Node(t, mesh.RoleMgmt).ServerTLS(identity.Policy{Anonymous: true}, identity.ProtoGRPC), m.RootHash(), false},
		"no pin at all":                       {m.NodeAs(t, mgmt).ServerTLS(identity.Policy{Anonymous: true}, identity.ProtoGRPC), [32]byte{}, false},
		"a foreign leaf below the right root": {serve(impostor), m.RootHash(), false},
		"a core of the mesh":                  {serve(m.Certificate(t, m.Identity(mesh.RoleCore))), m.RootHash(), false},
		"an entry of the mesh":                {serve(m.Certificate(t, m.Identity(mesh.RoleEntry))), m.RootHash(), false},
		"a server that hides its root":        {serve(withoutRoot(m.Certificate(t, mgmt))), m.RootHash(), false},
		"the pin of another root":             {m.NodeAs(t, mgmt).ServerTLS(identity.Policy{Anonymous: true}, identity.ProtoGRPC), other.RootHash(), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := connect(t, tt.server, identity.PinnedTLS(tt.hash, identity.ProtoGRPC))
			if got := s.client == nil; got != tt.ok {
				t.Fatalf("trusted %v, want %v: %v", got, tt.ok, s.client)
			}
			if !tt.ok && (s.received != 0 || !errors.Is(s.client, mesh.ErrDenied)) {
				t.Fatalf("%d bytes left the client, error %v", s.received, s.client)
			}
		})
	}
}

func serve(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{identity.ProtoGRPC}}
}

func withoutRoot(c tls.Certificate) tls.Certificate {
	c.Certificate = c.Certificate[:len(c.Certificate)-1]
	return c
}
