package control_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// issuing answers every key with a core's certificate, and counts.
func issuing(t *testing.T, m *identitytest.Mesh, id mesh.Identity, asked *atomic.Int64) func(*controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	return func(r *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
		asked.Add(1)
		return &controlpb.EnrollResponse{
			Chain: m.Answer(t, id, r.GetCsr()), MeshId: string(m.ID), Node: id.Node(),
			Name: "amsterdam", MgmtAddresses: []string{"mgmt.example.net:8443"},
		}, nil
	}
}

func enroll(t *testing.T, tok mesh.JoinToken) (control.Enrolled, *control.State, error) {
	t.Helper()
	st := state(t)
	e, err := control.Enroll(t.Context(), control.EnrollConfig{
		Token: tok, Role: mesh.RoleCore, Folder: folder(t), State: st, Version: "test", Log: logger(t),
	})
	return e, st, err
}

func TestEnrollSkipsWhoDoesNotAnswer(t *testing.T) {
	m := identitytest.New(t)
	id := m.Identity(mesh.RoleCore)
	var asked atomic.Int64
	srv := serve(t, &mgmt{enroll: issuing(t, m, id, &asked)}, m.Node(t, mesh.RoleMgmt), nil)
	e, st, err := enroll(t, token(m, nobody(t), srv.addr))
	if err != nil {
		t.Fatal(err)
	}
	if e.Node.Identity() != id || e.Name != "amsterdam" {
		t.Errorf("became %v named %q", e.Node.Identity(), e.Name)
	}
	if got := st.Addresses(); len(got) != 1 || got[0] != "mgmt.example.net:8443" {
		t.Errorf("remembered %v", got)
	}
}

func TestEnrollNamesEveryAddressThatDidNotAnswer(t *testing.T) {
	m := identitytest.New(t)
	a, b := nobody(t), nobody(t)
	tok := token(m, a, b)
	_, _, err := enroll(t, tok)
	if !errors.Is(err, mesh.ErrUnavailable) || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) {
		t.Errorf("got %v", err)
	}
	noSecret(t, err, tok)
}

func noSecret(t *testing.T, err error, tok mesh.JoinToken) {
	t.Helper()
	if text := err.Error() + mesh.Hint(err); strings.Contains(text, tok.Secret.Reveal()) || strings.Contains(text, tok.Encode().Reveal()) {
		t.Errorf("the error contains the secret: %s", text)
	}
}

// A server of another mesh, or a stranger in the way, sees no secret.
func TestEnrollSendsNothingToAForeignServer(t *testing.T) {
	ours, theirs := identitytest.New(t), identitytest.New(t)
	var asked atomic.Int64
	srv := serve(t, &mgmt{enroll: issuing(t, theirs, theirs.Identity(mesh.RoleCore), &asked)}, theirs.Node(t, mesh.RoleMgmt), nil)
	tok := token(ours, srv.addr)
	_, _, err := enroll(t, tok)
	if !errors.Is(err, mesh.ErrDenied) || !strings.Contains(err.Error(), "the server at "+srv.addr+" is not of the mesh that made this token") {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 0 {
		t.Error("the secret was sent")
	}
	noSecret(t, err, tok)
}

// A node of the mesh that is no management server must not collect tokens.
func TestEnrollSendsNothingToANode(t *testing.T) {
	m := identitytest.New(t)
	var asked atomic.Int64
	srv := serve(t, &mgmt{enroll: issuing(t, m, m.Identity(mesh.RoleCore), &asked)}, m.Node(t, mesh.RoleCore), nil)
	if _, _, err := enroll(t, token(m, srv.addr)); !errors.Is(err, mesh.ErrDenied) || asked.Load() != 0 {
		t.Errorf("got %v, asked %d times", err, asked.Load())
	}
}

func TestEnrollReturnsWhatTheServerSays(t *testing.T) {
	m := identitytest.New(t)
	for name, answer := range map[string]error{
		"used token":    mesh.WithHint(errorOf(mesh.ErrExists, "the token was used already"), "make a new token"),
		"expired token": errorOf(mesh.ErrDenied, "the token expired at noon"),
		"revoked token": errorOf(mesh.ErrDenied, "the token was revoked"),
		"unknown token": errorOf(mesh.ErrNotFound, "no such token"),
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			ask := func(*controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
				asked.Add(1)
				return nil, rpcstatus.To(answer)
			}
			one := serve(t, &mgmt{enroll: ask}, m.Node(t, mesh.RoleMgmt), nil)
			two := serve(t, &mgmt{enroll: ask}, m.Node(t, mesh.RoleMgmt), nil)
			tok := token(m, one.addr, two.addr)
			_, _, err := enroll(t, tok)
			if mesh.Kind(err) != mesh.Kind(answer) || !strings.Contains(err.Error(), answer.Error()) || mesh.Hint(err) != mesh.Hint(answer) {
				t.Errorf("got %v (hint %q), want %v", err, mesh.Hint(err), answer)
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d servers: a refusal is final", asked.Load())
			}
			noSecret(t, err, tok)
		})
	}
}

type kinded struct {
	kind error
	text string
}

func (k *kinded) Error() string             { return k.text }
func (k *kinded) Unwrap() error             { return k.kind }
func errorOf(kind error, text string) error { return &kinded{kind, text} }

// The server consumed the token and its answer was lost: the same key asks
// again and gets its certificate.
func TestEnrollSurvivesALostReply(t *testing.T) {
	m := identitytest.New(t)
	id := m.Identity(mesh.RoleCore)
	var mu sync.Mutex
	var keys []string
	lose := func(r *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, string(r.GetCsr()))
		if len(keys) == 1 {
			return nil, status.Error(codes.Unavailable, "connection lost")
		}
		return &controlpb.EnrollResponse{Chain: m.Answer(t, id, r.GetCsr())}, nil
	}
	srv := serve(t, &mgmt{enroll: lose}, m.Node(t, mesh.RoleMgmt), nil)
	f, cfg := folder(t), control.EnrollConfig{Role: mesh.RoleCore, Token: token(m, srv.addr), Log: logger(t), Wait: true}
	cfg.Folder = f
	e, err := control.Enroll(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || e.Node.Identity() != id {
		t.Fatalf("%d requests, became %v", len(keys), e.Node.Identity())
	}
	// Requests are signed anew, so compare the key through a certificate.
	if c0, c1 := m.Answer(t, id, []byte(keys[0])), m.Answer(t, id, []byte(keys[1])); keyOf(t, c0) != keyOf(t, c1) {
		t.Error("the second request had another key")
	}
}

func TestEnrollRefusesACertificateOfAnotherRole(t *testing.T) {
	m := identitytest.New(t)
	var asked atomic.Int64
	srv := serve(t, &mgmt{enroll: issuing(t, m, m.Identity(mesh.RoleEntry), &asked)}, m.Node(t, mesh.RoleMgmt), nil)
	if _, _, err := enroll(t, token(m, srv.addr)); !errors.Is(err, mesh.ErrDenied) || !strings.Contains(err.Error(), "entry") {
		t.Errorf("got %v", err)
	}
}

func TestEnrollGivesUpWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	m := identitytest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = control.Enroll(ctx, control.EnrollConfig{
		Token: token(m, ln.Addr().String()), Role: mesh.RoleCore, Folder: folder(t), Log: logger(t), Wait: true,
	})
	if err == nil {
		t.Error("want an error")
	}
}
