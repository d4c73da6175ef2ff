package control_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const podCluster = mesh.KubeID("kube-aaaaaaaaaaaaaaaa")

// pod is one with a token and addresses in its files.
func pod(t *testing.T, m *identitytest.Mesh, token string, addrs ...string) *control.Pod {
	t.Helper()
	dir := t.TempDir()
	p := &control.Pod{Cluster: podCluster, TokenFile: filepath.Join(dir, "token"), MgmtFile: filepath.Join(dir, "mgmt"), Root: m.RootHash()}
	write(t, p.TokenFile, token+"\n")
	write(t, p.MgmtFile, strings.Join(addrs, "\n")+"\n")
	return p
}

// write replaces a file as the kubelet does: at once.
func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// podServer answers pods, and keeps what they showed.
type podServer struct {
	mu     sync.Mutex // guards tokens
	tokens []string
}

func (s *podServer) answer(t *testing.T, m *identitytest.Mesh, id mesh.Identity, opts ...identitytest.Option) func(*controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
	return func(r *controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
		if r.GetPod().GetCluster() != string(podCluster) || r.GetRole() != "entry" || r.GetTokenId() != "" || r.GetSecret() != "" || r.GetVersion() != "test" {
			t.Errorf("asked with %v", r)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tokens = append(s.tokens, r.GetPod().GetToken())
		return &controlpb.EnrollResponse{Chain: m.Answer(t, id, r.GetCsr(), opts...), Node: id.Node()}, nil
	}
}

func (s *podServer) shown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

func enrollPod(t *testing.T, p *control.Pod, f *identity.Folder, st *control.State) (control.Enrolled, error) {
	t.Helper()
	return control.Enroll(t.Context(), control.EnrollConfig{Pod: p, Role: mesh.RoleEntry, Folder: f, State: st, Version: "test", Log: logger(t)})
}

// A pod enrolls with its token, and renews with the one that it has by then: the
// same entry with another key, whichever server answers.
func TestAPodEnrollsAndRenewsWithItsToken(t *testing.T) {
	m := identitytest.New(t)
	id := m.Identity(mesh.RoleEntry)
	var s podServer
	srv := serve(t, &mgmt{enroll: s.answer(t, m, id)}, m.Node(t, mesh.RoleMgmt), nil)
	p := pod(t, m, "first", nobody(t), srv.addr)
	f, st := folder(t), state(t)
	e, err := enrollPod(t, p, f, st)
	if err != nil {
		t.Fatal(err)
	}
	if e.Node.Identity() != id || !slices.Contains(st.Addresses(), srv.addr) {
		t.Errorf("became %v, remembers %q", e.Node.Identity(), st.Addresses())
	}
	write(t, p.TokenFile, "second")
	before := e.Node.Leaf()
	early := make(chan control.EarlyRenewal, 1)
	r := &control.Renewer{Node: e.Node, Folder: f, State: st, Revocations: m.Revocations(t), Log: logger(t), Early: early, Pod: p, Version: "test"}
	run(t, r.Run)
	early <- control.EarlyRenewal{Serial: before.SerialNumber.String(), Within: time.Millisecond}
	eventually(t, "renewed", func() bool { return e.Node.Leaf().SerialNumber.Cmp(before.SerialNumber) != 0 })
	if e.Node.Identity() != id || identity.KeyHash(before.PublicKey) == identity.KeyHash(e.Node.Leaf().PublicKey) {
		t.Errorf("became %v, with the same key or as another", e.Node.Identity())
	}
	if got := s.shown(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("shown %q", got)
	}
}

// run runs f until the test ends, and waits.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The token is for this mesh's servers alone, and for none that was revoked.
func TestAPodShowsItsTokenToNobodyElse(t *testing.T) {
	m, other := identitytest.New(t), identitytest.New(t)
	var asked atomic.Int64
	count := func(*controlpb.EnrollRequest) (*controlpb.EnrollResponse, error) {
		asked.Add(1)
		return nil, mesh.ErrDenied
	}
	foreign := serve(t, &mgmt{enroll: count}, other.Node(t, mesh.RoleMgmt), nil)
	entry := serve(t, &mgmt{enroll: count}, m.NodeAs(t, m.Identity(mesh.RoleCore)), nil)
	for what, srv := range map[string]*mgmt{"of another mesh": foreign, "of another role": entry} {
		_, err := enrollPod(t, pod(t, m, "token", srv.addr), folder(t), state(t))
		if mesh.Kind(err) != mesh.ErrDenied || strings.Contains(err.Error(), "made this token") {
			t.Errorf("%s: %v", what, err)
		}
	}
	server := m.Node(t, mesh.RoleMgmt)
	revs := m.Revocations(t)
	if err := revs.Apply(true, 0, 1, []mesh.SignedRevocation{m.Revoke(t, mesh.Revocation{Serial: server.Leaf().SerialNumber.String()})}); err != nil {
		t.Fatal(err)
	}
	stolen := serve(t, &mgmt{enroll: count}, server, nil)
	f, node := m.Folder(t, m.Identity(mesh.RoleEntry), identitytest.Life(time.Minute))
	early := make(chan control.EarlyRenewal, 1)
	r := &control.Renewer{Node: node, Folder: f, State: state(t, stolen.addr), Revocations: revs, Log: logger(t), Early: early, Pod: pod(t, m, "token", stolen.addr), Version: "test"}
	run(t, r.Run)
	early <- control.EarlyRenewal{Serial: node.Leaf().SerialNumber.String(), Within: time.Millisecond}
	eventually(t, "the server was refused", func() bool { return strings.Contains(r.Failure(), "revoked") })
	if asked.Load() != 0 {
		t.Errorf("the token was shown %d times", asked.Load())
	}
}

func TestWhatIsWrongWithAPodsFiles(t *testing.T) {
	m := identitytest.New(t)
	var s podServer
	srv := serve(t, &mgmt{enroll: s.answer(t, m, m.Identity(mesh.RoleEntry))}, m.Node(t, mesh.RoleMgmt), nil)
	for name, spoil := range map[string]func(*control.Pod){
		"no token":              func(p *control.Pod) { os.Remove(p.TokenFile) },
		"an empty token":        func(p *control.Pod) { write(t, p.TokenFile, "\n") },
		"two words":             func(p *control.Pod) { write(t, p.TokenFile, "a b") },
		"a token without end":   func(p *control.Pod) { write(t, p.TokenFile, strings.Repeat("a", 17<<10)) },
		"no addresses":          func(p *control.Pod) { os.Remove(p.MgmtFile) },
		"none in the file":      func(p *control.Pod) { write(t, p.MgmtFile, "\n") },
		"no port":               func(p *control.Pod) { write(t, p.MgmtFile, "mgmt.example.net") },
		"addresses without end": func(p *control.Pod) { write(t, p.MgmtFile, strings.Repeat("a:1\n", 17)) },
	} {
		p := pod(t, m, "secret", srv.addr)
		spoil(p)
		if _, err := enrollPod(t, p, folder(t), state(t)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.shown(); len(got) > 0 {
		t.Errorf("shown %q", got)
	}
}
