package adminsvc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// fakeKubes renders as the real one does, and answers what a test says.
type fakeKubes struct {
	mesh   mesh.ID
	answer kube.Answer
	err    error
	asked  []kube.Ask
}

func (f *fakeKubes) Render(_ context.Context, c mesh.KubeCluster, r mesh.EntryRelease) ([]kube.Object, error) {
	return kube.Render(r, kube.Facts{
		Mesh: f.mesh, Cluster: c.ID, Namespace: c.Namespace, Root: strings.Repeat("ab", 32), Mgmt: []string{"mgmt.example.net:8443"}, Paused: c.Paused,
	})
}

func (f *fakeKubes) AskKube(_ context.Context, a kube.Ask) (kube.Answer, error) {
	f.asked = append(f.asked, a)
	return f.answer, f.err
}

// newKubeRig is a rig with clusters that answer well.
func newKubeRig(t *testing.T) (*rig, *fakeKubes) {
	r := newRig(t)
	f := &fakeKubes{mesh: r.Mesh, answer: kube.Answer{Version: "v1.34.4"}}
	r.Kubes = f
	return r, f
}

const bearer = "a-bearer-token-that-nobody-may-see"

func connection() admin.KubeConnection {
	return admin.KubeConnection{Server: "https://kube.example.net:6443/", Auth: mesh.KubeToken, Credential: bearer}
}

func (r *rig) cluster(name string) admin.KubeView {
	c := connection()
	c.Server = "https://" + name + ".example.net:6443"
	return must(r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: name, KubeConnection: c}))(r.t)
}

// state writes what was seen of a cluster.
func (r *rig) state(id mesh.KubeID, st mesh.KubeState) {
	st.Cluster = id
	r.write("kube.see", func(tx *store.Tx) error {
		if err := drop(tx, r.Store.KubeStates, id); err != nil {
			return err
		}
		return store.Create(tx, r.Store.KubeStates, id, st)
	})
}

func layer(replicas int) mesh.EntryLayer {
	return mesh.EntryLayer{Image: "registry.example.net/meshctl:1.0", Replicas: replicas}
}

func (r *rig) deploy(ref string, base int64, l mesh.EntryLayer) admin.KubeView {
	return must(r.entryDeploy(r.ctx(), admin.EntryDeployRequest{Ref: ref, Layer: l, Base: base, Why: "deploy"}))(r.t)
}

func TestAClusterIsAskedBeforeItIsAdded(t *testing.T) {
	r, f := newKubeRig(t)
	add := func(req admin.KubeAddRequest) error { _, err := r.kubeAdd(r.ctx(), req); return err }
	good := admin.KubeAddRequest{Name: "north", KubeConnection: connection()}
	for _, c := range []struct {
		answer kube.Answer
		kind   error
		says   string
	}{
		{kube.Answer{Failure: kube.Unreachable, Detail: "connection refused"}, mesh.ErrUnavailable, "unreachable: connection refused"},
		{kube.Answer{Failure: kube.Untrusted}, mesh.ErrDenied, "compare the CA"},
		{kube.Answer{Failure: kube.Credential}, mesh.ErrDenied, "admin kube set north"},
		{kube.Answer{Failure: kube.Denied}, mesh.ErrDenied, "admin kube rbac --namespace meshctl-entry"},
		{kube.Answer{Failure: kube.Limited}, mesh.ErrUnavailable, "try again"},
		{kube.Answer{Failure: kube.Foreign}, mesh.ErrConflict, "choose a namespace"},
		{kube.Answer{Missing: []string{"create pods", "get pods/log"}}, mesh.ErrDenied, "may not create pods, get pods/log"},
		{kube.Answer{Unguarded: true}, mesh.ErrDenied, "the namespace meshctl-entry does not enforce the Pod Security standard restricted"},
	} {
		f.answer = c.answer
		refused(t, add(good), c.kind, c.says)
	}
	f.answer, f.err = kube.Answer{}, fmt.Errorf("no child: %w", mesh.ErrUnavailable)
	refused(t, add(good), mesh.ErrUnavailable, "no child")
	if l := must(r.kubeList(r.ctx(), admin.Page{}))(t); len(l.Items) != 0 {
		t.Fatalf("there are %d clusters", len(l.Items))
	}
	f.err = nil
	v := must(r.kubeAdd(r.ctx(), good))(t)
	if v.Server != "https://kube.example.net:6443" || v.Namespace != kube.DefaultNamespace || v.State == nil || v.State.Seen.IsZero() || !v.State.Well() {
		t.Errorf("it is %+v", v)
	}
	a := f.asked[len(f.asked)-1]
	if a.Kind != kube.AskCheck || a.API.Credential.Reveal() != bearer || a.API.Namespace != kube.DefaultNamespace || a.Mesh != r.Mesh {
		t.Errorf("asked %v of namespace %s", a.Kind, a.API.Namespace)
	}
	f.answer = kube.Answer{Failure: kube.Unreachable}
	good.Name, good.Unchecked, good.Namespace = "south", true, "entries"
	must(r.kubeAdd(r.ctx(), good))(t)
}

func TestConnectionsThatAreNone(t *testing.T) {
	r, f := newKubeRig(t)
	past := time.Now().Add(-time.Hour).Unix()
	ended := "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, past)) + ".c2ln"
	for says, change := range map[string]func(*admin.KubeAddRequest){
		"https://":    func(q *admin.KubeAddRequest) { q.Server = "http://kube.example.net" },
		"a user":      func(q *admin.KubeAddRequest) { q.Server = "https://root:secret@kube.example.net" },
		"token":       func(q *admin.KubeAddRequest) { q.Credential = "two words" },
		"key":         func(q *admin.KubeAddRequest) { q.Auth = mesh.KubeCertificate },
		"PEM":         func(q *admin.KubeAddRequest) { q.CA = "no certificate" },
		"name":        func(q *admin.KubeAddRequest) { q.Name = "North West" },
		"namespace":   func(q *admin.KubeAddRequest) { q.Namespace = "kube-system" },
		"has ended":   func(q *admin.KubeAddRequest) { q.Credential = ended },
		"auth \"no\"": func(q *admin.KubeAddRequest) { q.Auth = "no" },
	} {
		req := admin.KubeAddRequest{Name: "north", KubeConnection: connection()}
		change(&req)
		_, err := r.kubeAdd(r.ctx(), req)
		refused(t, err, mesh.ErrInvalid, says)
		if err != nil && strings.Contains(err.Error(), bearer) {
			t.Errorf("the error shows the credential: %v", err)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("%d questions were asked", len(f.asked))
	}
}

func TestTwoClustersShareNoNameAndNoNamespace(t *testing.T) {
	r, _ := newKubeRig(t)
	r.cluster("north")
	c := connection()
	_, err := r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "north", KubeConnection: c})
	refused(t, err, mesh.ErrExists, "taken")
	c.Server = "https://north.example.net:6443"
	_, err = r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "other", KubeConnection: c})
	refused(t, err, mesh.ErrExists, "is that of cluster north")
	must(r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "other", KubeConnection: c, Namespace: "elsewhere"}))(t)
}

func TestAConnectionIsReplacedAsAWhole(t *testing.T) {
	r, f := newKubeRig(t)
	v := r.cluster("north")
	c := connection()
	c.Credential = "another-token"
	f.answer = kube.Answer{Failure: kube.Credential}
	_, err := r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "north", Connection: &c})
	refused(t, err, mesh.ErrDenied, "new credential")
	f.answer = kube.Answer{}
	must(r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "north", Name: new("west"), Connection: &c}))(t)
	stored := must(r.Store.Kubes.Get(r.ctx(), v.ID))(t).Value
	if stored.Name != "west" || stored.Server != "https://kube.example.net:6443" {
		t.Errorf("it is %s at %s", stored.Name, stored.Server)
	}
	got := must(r.Store.Unseal(store.KubeCredentialPlace(v.ID), stored.Credential))(t)
	if got.Reveal() != "another-token" {
		t.Error("the credential is not the new one")
	}
	must(r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "west", Name: new("north")}))(t)
	must(r.kubeGet(r.ctx(), admin.Ref{Ref: "north"}))(t)
}

func TestACredentialIsNowhere(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	r.deploy("north", 0, layer(2))
	stored := must(r.Store.Kubes.Get(r.ctx(), v.ID))(t).Value
	for where, what := range map[string]any{
		"the view": must(r.kubeGet(r.ctx(), admin.Ref{Ref: "north"}))(t), "the audit": r.audits(), "the store": stored,
		"events": must(r.eventList(r.ctx(), admin.EventListRequest{}))(t),
	} {
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), bearer) || where != "the store" && strings.Contains(string(text), string(stored.Credential)) {
			t.Errorf("%s has the credential", where)
		}
	}
}

func TestAClusterWithEntriesIsRemovedWhenItIsAbandoned(t *testing.T) {
	r, _ := newKubeRig(t)
	v := r.cluster("north")
	r.deploy("north", 0, layer(2))
	r.state(v.ID, mesh.KubeState{Ran: 1})
	_, err := r.kubeRemove(r.ctx(), admin.KubeRemoveRequest{Ref: "north"})
	refused(t, err, mesh.ErrConflict, "entry uninstall north")
	must(r.kubeRemove(r.ctx(), admin.KubeRemoveRequest{Ref: "north", Abandon: true}))(t)
	if _, err := r.Store.KubeStates.Get(r.ctx(), v.ID); mesh.Kind(err) != mesh.ErrNotFound {
		t.Errorf("its state: %v", err)
	}
	r.cluster("north") // name and namespace are free again
}

func TestWhoMayDoWhatWithClusters(t *testing.T) {
	table := admin.Table()
	for name, want := range map[string]mesh.AdminRole{
		admin.KubeAdd.FullName(): mesh.AdminOwner, admin.KubeSet.FullName(): mesh.AdminOwner, admin.KubeRemove.FullName(): mesh.AdminOwner,
		admin.KubeList.FullName(): mesh.AdminAuditor, admin.EntryRender.FullName(): mesh.AdminAuditor, admin.EntryDeploy.FullName(): mesh.AdminOperator,
		admin.EntryRollout.FullName(): mesh.AdminOperator, admin.EntryUninstall.FullName(): mesh.AdminOperator,
	} {
		if table[name] != want {
			t.Errorf("%s needs %q, want %q", name, table[name], want)
		}
		if _, ok := admin.BotTable()[name]; ok {
			t.Errorf("the bot may call %s", name)
		}
	}
}

// A namespace is one, whatever URLs lead to it: it is known by its UID.
func TestANamespaceIsThatOfOneClusterWhateverItsURL(t *testing.T) {
	r, f := newKubeRig(t)
	f.answer.NamespaceUID = "uid-a"
	v := r.cluster("north")
	if v.NamespaceUID != "uid-a" {
		t.Errorf("it is %q", v.NamespaceUID)
	}
	c := connection()
	c.Server = "https://192.0.2.9:6443"
	_, err := r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "other", KubeConnection: c})
	refused(t, err, mesh.ErrExists, "is that of cluster north")
	f.answer.NamespaceUID = "uid-b"
	must(r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "other", KubeConnection: c}))(t)
	c.Server = "https://192.0.2.10:6443"
	f.answer.NamespaceUID = "uid-a"
	_, err = r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "other", Connection: &c})
	refused(t, err, mesh.ErrExists, "is that of cluster north")
}

// A kubeconfig of another cluster does not take the entries of this one along.
func TestAClusterThatHasMovedIsTakenWhenSomebodySaysSo(t *testing.T) {
	r, f := newKubeRig(t)
	f.answer.NamespaceUID = "uid-a"
	v := r.cluster("north")
	c := connection()
	set := func(moved bool) (admin.KubeView, error) {
		return r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "north", Connection: &c, Moved: moved})
	}
	_, err := r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "north", Name: new("south"), Moved: true})
	refused(t, err, mesh.ErrInvalid, "moved is about a connection")
	f.answer.NamespaceUID = "uid-b"
	if v = must(set(false))(t); v.NamespaceUID != "uid-b" {
		t.Errorf("nothing is deployed, and it is %q", v.NamespaceUID)
	}
	r.deploy("north", 0, layer(2))
	r.state(v.ID, mesh.KubeState{Ran: 1, Pods: []mesh.KubePod{{Name: "a"}}})
	if v = must(set(false))(t); v.State == nil || v.State.Ran != 1 {
		t.Errorf("the same namespace, and what was seen is %+v", v.State)
	}
	f.answer.NamespaceUID = "uid-c"
	_, err = set(false)
	refused(t, err, mesh.ErrConflict, "--moved")
	if now := must(r.kubeGet(r.ctx(), admin.Ref{Ref: "north"}))(t); now.NamespaceUID != "uid-b" {
		t.Errorf("it was taken: %q", now.NamespaceUID)
	}
	if v = must(set(true))(t); v.NamespaceUID != "uid-c" || v.State != nil || v.Wanted.Number != 1 {
		t.Errorf("it is %q, release %d, seen %+v", v.NamespaceUID, v.Wanted.Number, v.State)
	}
	unasked := admin.KubeSetRequest{Ref: "north", Connection: &c, Unchecked: true}
	if v = must(r.kubeSet(r.ctx(), unasked))(t); v.NamespaceUID != "uid-c" {
		t.Errorf("unasked it is %q", v.NamespaceUID)
	}
	unasked.Moved = true
	if v = must(r.kubeSet(r.ctx(), unasked))(t); v.NamespaceUID != "" {
		t.Errorf("it has moved, and is %q still", v.NamespaceUID)
	}
}

// What failed in the old cluster is not what begins in the new one.
func TestAReleaseThatFailedStaysSoWhereAClusterHasMoved(t *testing.T) {
	r, f := newKubeRig(t)
	f.answer.NamespaceUID = "uid-a"
	v := r.cluster("north")
	r.deploy("north", 0, layer(2))
	bad := layer(2)
	bad.Image = "registry.example.net/meshctl:broken"
	r.deploy("north", 1, bad)
	r.state(v.ID, mesh.KubeState{Ran: 1, Parked: 2, ParkedWhy: "pod a: crash", Pods: []mesh.KubePod{{Name: "a"}}})
	f.answer.NamespaceUID = "uid-b"
	c := connection()
	v = must(r.kubeSet(r.ctx(), admin.KubeSetRequest{Ref: "north", Connection: &c, Moved: true}))(t)
	if v.Runs().Number != 1 || v.State == nil || v.State.Parked != 2 || len(v.State.Pods) != 0 {
		t.Errorf("release %d is to run, seen %+v", v.Runs().Number, v.State)
	}
}

func TestACheckIsRememberedWhereNothingRuns(t *testing.T) {
	r, f := newKubeRig(t)
	f.answer = kube.Answer{Failure: kube.Unreachable}
	c := connection()
	v := must(r.kubeAdd(r.ctx(), admin.KubeAddRequest{Name: "north", KubeConnection: c, Unchecked: true}))(t)
	look := func() *mesh.KubeState { return must(r.kubeLook(r.ctx(), admin.Ref{Ref: "north"}))(t).State }
	must(r.kubeCheck(r.ctx(), admin.Ref{Ref: "north"}))(t)
	if look() != nil {
		t.Errorf("nobody has seen it: %+v", look())
	}
	f.answer = kube.Answer{Version: "v1.34.4"}
	must(r.kubeCheck(r.ctx(), admin.Ref{Ref: "north"}))(t)
	if st := look(); st == nil || st.Seen.IsZero() || st.Version != "v1.34.4" {
		t.Fatalf("seen %+v", st)
	}
	r.deploy("north", 0, layer(2))
	r.state(v.ID, mesh.KubeState{Rollout: mesh.KubeRollout{Phase: mesh.KubeRolling}})
	must(r.kubeCheck(r.ctx(), admin.Ref{Ref: "north"}))(t)
	if st := look(); !st.Seen.IsZero() {
		t.Errorf("whoever looks after it says what was seen: %+v", st)
	}
}
