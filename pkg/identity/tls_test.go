package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// session is what became of one connection.
type session struct {
	server, client error // nil when that side got the other's byte
	peer           identity.Peer
	peerErr        error
	resumed        bool
	received       int // bytes of application data the server got
}

// connect lets a client say one byte and a server answer it.
func connect(t *testing.T, server, client *tls.Config) session {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var s session
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			s.server = err
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		s.serve(tls.Server(c, server))
	}()
	s.client = say(ln.Addr().String(), client)
	<-done
	return s
}

func (s *session) serve(c *tls.Conn) {
	defer c.Close()
	buf := make([]byte, 16)
	s.received, s.server = c.Read(buf)
	if s.server != nil {
		return
	}
	s.resumed = c.ConnectionState().DidResume
	s.peer, s.peerErr = identity.PeerOf(c.ConnectionState())
	_, s.server = c.Write([]byte("!"))
}

func say(addr string, cfg *tls.Config) error {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	c := tls.Client(raw, cfg)
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// with is a client configuration that presents cert and believes anything.
func with(cert tls.Certificate, alpn ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: alpn, Certificates: []tls.Certificate{cert}}
}

func everybody() identity.Policy {
	return identity.Policy{Accept: identity.MgmtPort().Accept}
}

func TestRolesAndListeners(t *testing.T) {
	m := identitytest.New(t)
	listeners := []struct {
		name  string
		role  mesh.Role
		roles identity.Roles
		alpn  string
		admit []mesh.Role
	}{
		{"the mesh port", mesh.RoleMgmt, identity.MgmtPort(), identity.ProtoGRPC, []mesh.Role{mesh.RoleMgmt, mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin}},
		{"the mesh port's relay", mesh.RoleMgmt, identity.MgmtPort(), identity.ProtoRelay, []mesh.Role{mesh.RoleEntry}},
		{"a core's relay", mesh.RoleCore, identity.RelayPort(), identity.ProtoRelay, []mesh.Role{mesh.RoleEntry}},
		{"a core's probe", mesh.RoleCore, identity.RelayPort(), identity.ProtoProbe, []mesh.Role{mesh.RoleMgmt}},
	}
	for _, l := range listeners {
		server := m.Node(t, l.role)
		cfg := server.ServerTLS(identity.Policy{Accept: l.roles.Accept}, protocols(l.roles)...)
		for _, role := range []mesh.Role{mesh.RoleMgmt, mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin} {
			t.Run(string(role)+" at "+l.name, func(t *testing.T) {
				client := m.Node(t, role)
				s := connect(t, cfg, client.ClientTLS(server.Identity(), nil, l.alpn))
				want := false
				for _, r := range l.admit {
					want = want || r == role
				}
				if got := s.server == nil && s.client == nil; got != want {
					t.Fatalf("admitted %v, want %v (server: %v, client: %v)", got, want, s.server, s.client)
				}
				if want && (s.peerErr != nil || s.peer.Identity != client.Identity()) {
					t.Fatalf("peer %v, %v", s.peer.Identity, s.peerErr)
				}
			})
		}
	}
}

func protocols(r identity.Roles) (out []string) {
	for p := range r {
		out = append(out, p)
	}
	return out
}

func TestServerRefuses(t *testing.T) {
	m := identitytest.New(t)
	foreign := identitytest.NewWithID(t, m.ID) // says it is the same mesh
	other := identitytest.New(t)
	core := m.Identity(mesh.RoleCore)
	spiffe := func(s string) identitytest.Option {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return identitytest.Names(u)
	}
	mixed := m.Certificate(t, core)
	mixed.Certificate = append(foreign.Certificate(t, core).Certificate[:1], mixed.Certificate...)
	long := m.Certificate(t, core)
	for range 5 {
		long.Certificate = append(long.Certificate, m.Root.Raw)
	}
	tests := map[string]struct {
		cert tls.Certificate
		say  string
	}{
		"a certificate that ended":                     {m.Certificate(t, core, identitytest.Expired(time.Minute)), "it ended at"},
		"one that has not begun":                       {m.Certificate(t, core, identitytest.NotYet(time.Hour)), "this machine's clock says"},
		"two identities":                               {m.Certificate(t, core, identitytest.Also(m.Identity(mesh.RoleEntry))), "2 URI names"},
		"no identity":                                  {m.Certificate(t, core, identitytest.Names()), "0 URI names"},
		"an identity without id":                       {m.Certificate(t, core, spiffe("spiffe://"+string(m.ID)+"/core")), "no identity"},
		"an id of another role":                        {m.Certificate(t, core, spiffe("spiffe://"+string(m.ID)+"/mgmt/"+core.ID)), "no identity"},
		"another mesh's name signed by ours":           {m.Certificate(t, other.Identity(mesh.RoleCore)), "another mesh"},
		"another mesh":                                 {other.Certificate(t, other.Identity(mesh.RoleCore)), "does not chain"},
		"another CA under our name":                    {foreign.Certificate(t, core), "does not chain"},
		"a foreign leaf followed by our chain":         {mixed, "does not chain"},
		"a certificate for servers only":               {m.Certificate(t, core, identitytest.Usage(x509.ExtKeyUsageServerAuth)), "key usage"},
		"a certificate without key usage":              {m.Certificate(t, core, identitytest.Usage()), "key usage"},
		"a chain of eight":                             {long, "chain of 8"},
		"nothing at all":                               {tls.Certificate{}, "didn't provide a certificate"},
		"our CA's own certificate":                     {tls.Certificate{Certificate: [][]byte{m.Intermediate.Raw, m.Root.Raw}, PrivateKey: identitytest.Key(t)}, ""},
		"a node whose chain does not hold its issuer":  {tls.Certificate{Certificate: m.Certificate(t, core).Certificate[:1], PrivateKey: identitytest.Key(t)}, ""},
		"a certificate with another key than it names": {tls.Certificate{Certificate: m.Certificate(t, core).Certificate, PrivateKey: identitytest.Key(t)}, ""},
	}
	server := m.Node(t, mesh.RoleMgmt)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := connect(t, server.ServerTLS(everybody(), identity.ProtoGRPC), with(tt.cert, identity.ProtoGRPC))
			if s.server == nil || s.client == nil || s.received != 0 {
				t.Fatal("it was let in")
			}
			if !strings.Contains(s.server.Error(), tt.say) {
				t.Fatalf("error %q does not say %q", s.server, tt.say)
			}
		})
	}
}

func TestServerRefusesByDefault(t *testing.T) {
	m := identitytest.New(t)
	server, client := m.Node(t, mesh.RoleMgmt), m.Node(t, mesh.RoleCore)
	toServer := client.ClientTLS(server.Identity(), nil, identity.ProtoGRPC)
	denied := errors.New("not on record")
	tests := map[string]struct {
		policy identity.Policy
		client *tls.Config
		ok     bool
	}{
		"the zero policy admits nobody":              {identity.Policy{}, toServer, false},
		"the zero policy admits no anonymous":        {identity.Policy{}, with(tls.Certificate{}, identity.ProtoGRPC), false},
		"anonymous peers come in where allowed":      {identity.Policy{Anonymous: true}, with(tls.Certificate{}, identity.ProtoGRPC), true},
		"a bad certificate is worse than none":       {identity.Policy{Anonymous: true, Accept: identity.MgmtPort().Accept}, with(identitytest.New(t).Certificate(t, client.Identity()), identity.ProtoGRPC), false},
		"a client that offers no protocol":           {everybody(), with(m.Certificate(t, client.Identity())), false},
		"an anonymous relay":                         {identity.Policy{Anonymous: true}, with(tls.Certificate{}, identity.ProtoRelay), false},
		"an anonymous client that offers none":       {identity.Policy{Anonymous: true}, with(tls.Certificate{}), false},
		"an admin that is not on record":             {identity.Policy{Accept: identity.MgmtPort().Accept, Record: func(identity.Peer) error { return denied }}, with(m.Certificate(t, m.Identity(mesh.RoleAdmin)), identity.ProtoGRPC), false},
		"records are not asked for about cores":      {identity.Policy{Accept: identity.MgmtPort().Accept, Record: func(identity.Peer) error { return denied }}, toServer, true},
		"TLS 1.2 is refused":                         {everybody(), oldTLS(m.Certificate(t, client.Identity())), false},
		"an identity that ended, with grace of zero": {identity.Policy{Accept: identity.MgmtPort().Accept, Grace: func() time.Duration { return 0 }}, with(m.Certificate(t, client.Identity(), identitytest.Expired(time.Minute)), identity.ProtoGRPC), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := connect(t, server.ServerTLS(tt.policy, identity.ProtoGRPC, identity.ProtoRelay), tt.client)
			if got := s.server == nil && s.client == nil; got != tt.ok {
				t.Fatalf("admitted %v, want %v (server: %v, client: %v)", got, tt.ok, s.server, s.client)
			}
		})
	}
}

// Names of mesh and node are for those who ask for a protocol of the mesh.
func TestScannersSeeNoCertificate(t *testing.T) {
	m := identitytest.New(t)
	server := m.Node(t, mesh.RoleCore)
	for name, tt := range map[string]struct {
		protocols []string
		seen      bool
	}{
		"no protocol":               {nil, false},
		"those of web browsers":     {[]string{"h2", "http/1.1"}, false},
		"the protocol of the relay": {[]string{identity.ProtoRelay}, true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := false
			client := with(tls.Certificate{}, tt.protocols...)
			client.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { seen = true; return nil }
			s := connect(t, server.ServerTLS(identity.Policy{Accept: identity.RelayPort().Accept}, identity.ProtoRelay, identity.ProtoProbe), client)
			if seen != tt.seen || s.server == nil {
				t.Errorf("the certificate was seen: %v, want %v (server: %v)", seen, tt.seen, s.server)
			}
		})
	}
}

func oldTLS(cert tls.Certificate) *tls.Config {
	c := with(cert, identity.ProtoGRPC)
	c.MaxVersion = tls.VersionTLS12
	return c
}

func TestClientRefuses(t *testing.T) {
	m := identitytest.New(t)
	foreign := identitytest.NewWithID(t, m.ID)
	core := m.Identity(mesh.RoleCore)
	revs := m.Revocations(t)
	revoked := m.Identity(mesh.RoleCore)
	revokedCert := m.Certificate(t, revoked)
	if err := revs.Apply(true, 0, 1, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Node: revoked.Node()})}); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cert   tls.Certificate
		expect mesh.Identity
		ok     bool
	}{
		"the core it expects":            {m.Certificate(t, core), core, true},
		"any core":                       {m.Certificate(t, core), mesh.Identity{Mesh: m.ID, Role: mesh.RoleCore}, true},
		"another core":                   {m.Certificate(t, m.Identity(mesh.RoleCore)), core, false},
		"a mgmt server":                  {m.Certificate(t, m.Identity(mesh.RoleMgmt)), core, false},
		"the name under another CA":      {foreign.Certificate(t, core), core, false},
		"a certificate that ended":       {m.Certificate(t, core, identitytest.Expired(time.Second)), core, false},
		"one for clients only":           {m.Certificate(t, core, identitytest.Usage(x509.ExtKeyUsageClientAuth)), core, false},
		"an entry, which never listens":  {m.Certificate(t, m.Identity(mesh.RoleEntry)), mesh.Identity{Mesh: m.ID, Role: mesh.RoleEntry}, false},
		"a core of two names":            {m.Certificate(t, core, identitytest.Also(m.Identity(mesh.RoleCore))), core, false},
		"a revoked core":                 {revokedCert, revoked, false},
		"nobody is expected: zero value": {m.Certificate(t, core), mesh.Identity{}, false},
	}
	client := m.Node(t, mesh.RoleEntry)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := &tls.Config{Certificates: []tls.Certificate{tt.cert}, NextProtos: []string{identity.ProtoRelay}}
			s := connect(t, server, client.ClientTLS(tt.expect, revs, identity.ProtoRelay))
			if got := s.client == nil; got != tt.ok {
				t.Fatalf("trusted %v, want %v: %v", got, tt.ok, s.client)
			}
			if !tt.ok && (s.received != 0 || !errors.Is(s.client, mesh.ErrDenied)) {
				t.Fatalf("%d bytes sent, error %v", s.received, s.client)
			}
		})
	}
	t.Run("a server without the protocol", func(t *testing.T) {
		s := connect(t, &tls.Config{Certificates: []tls.Certificate{m.Certificate(t, core)}}, client.ClientTLS(core, nil, identity.ProtoRelay))
		if !errors.Is(s.client, mesh.ErrDenied) || s.received != 0 {
			t.Fatalf("%d bytes sent, error %v", s.received, s.client)
		}
	})
}

func TestExpiredRenewsAndNothingElse(t *testing.T) {
	m := identitytest.New(t)
	server := m.Node(t, mesh.RoleMgmt)
	policy := everybody()
	policy.Grace = func() time.Duration { return time.Hour }

	late := m.NodeAs(t, m.Identity(mesh.RoleCore), identitytest.Expired(10*time.Minute))
	s := connect(t, server.ServerTLS(policy, identity.ProtoGRPC), late.ClientTLS(server.Identity(), nil, identity.ProtoGRPC))
	if s.server != nil || s.client != nil {
		t.Fatalf("within grace: server %v, client %v", s.server, s.client)
	}
	if !errors.Is(s.peerErr, mesh.ErrDenied) {
		t.Fatalf("PeerOf let it through: %v", s.peerErr)
	}

	tooLate := m.NodeAs(t, m.Identity(mesh.RoleCore), identitytest.Expired(2*time.Hour))
	if s := connect(t, server.ServerTLS(policy, identity.ProtoGRPC), tooLate.ClientTLS(server.Identity(), nil, identity.ProtoGRPC)); s.server == nil {
		t.Fatal("admitted after the grace period")
	}

	policy.Accept = func(string, identity.Peer) error { return nil }
	if s := connect(t, server.ServerTLS(policy, identity.ProtoRelay), late.ClientTLS(server.Identity(), nil, identity.ProtoRelay)); s.server == nil {
		t.Fatal("an expired certificate opened a relay")
	}
}

func TestRevokedWhileResuming(t *testing.T) {
	// C-06: VerifyPeerCertificate is skipped on resumption, VerifyConnection is
	// not. Tickets are off here; the second half turns them on to see that even
	// then the check is made.
	for _, tickets := range []bool{false, true} {
		m := identitytest.New(t)
		server, client := m.Node(t, mesh.RoleMgmt), m.Node(t, mesh.RoleCore)
		policy := everybody()
		policy.Revocations = m.Revocations(t)
		cfg := server.ServerTLS(policy, identity.ProtoGRPC)
		if tickets {
			cfg.SessionTicketsDisabled = false
		}
		dial := client.ClientTLS(server.Identity(), nil, identity.ProtoGRPC)
		dial.ServerName = "server" // the cache needs a key
		dial.ClientSessionCache = tls.NewLRUClientSessionCache(4)
		for i := range 2 {
			s := connect(t, cfg, dial)
			if s.server != nil || s.client != nil {
				t.Fatalf("connection %d: %v, %v", i, s.server, s.client)
			}
			if s.resumed && !tickets {
				t.Fatal("a session was resumed although tickets are off")
			}
		}
		rev := m.Revoke(t, mesh.Revocation{Node: client.Identity().Node()})
		if err := policy.Revocations.Apply(true, 0, 1, []mesh.SignedRevocation{rev}); err != nil {
			t.Fatal(err)
		}
		if s := connect(t, cfg, dial); !errors.Is(s.server, mesh.ErrDenied) || s.received != 0 {
			t.Fatalf("tickets %v: a revoked node got in: %v", tickets, s.server)
		}
	}
}

func TestReplaceServesNewConnections(t *testing.T) {
	m := identitytest.New(t)
	server, client := m.Node(t, mesh.RoleMgmt), m.Node(t, mesh.RoleCore)
	srv, dial := server.ServerTLS(everybody(), identity.ProtoGRPC), client.ClientTLS(server.Identity(), nil, identity.ProtoGRPC)
	before := connect(t, srv, dial)
	client.Replace(m.NodeAs(t, client.Identity()))
	after := connect(t, srv, dial)
	if before.server != nil || after.server != nil || before.peer.Serial == after.peer.Serial {
		t.Fatalf("serials %s then %s (%v, %v)", before.peer.Serial, after.peer.Serial, before.server, after.server)
	}
}

func TestPeerOfNeedsAHandshake(t *testing.T) {
	m := identitytest.New(t)
	leaf := m.Node(t, mesh.RoleCore).Leaf()
	_, err := identity.PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
	if !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("read before verification: %v", err)
	}
	if _, err := identity.PeerOf(tls.ConnectionState{HandshakeComplete: true}); !errors.Is(err, mesh.ErrDenied) {
		t.Fatalf("anonymous: %v", err)
	}
}
