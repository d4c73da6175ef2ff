package mgmt

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// A pod becomes an entry without a secret that anybody made for it, for a day at
// most, and is the same entry whenever it comes with another key.
func TestAPodBecomesAnEntry(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	uid, token := c.pod()
	n, resp, err := w.enrollPod(t, c.ID, token)
	if err != nil {
		t.Fatal(err)
	}
	e := w.entry(t, n)
	want := mesh.EntryPod{Cluster: c.ID, Namespace: "edge", Name: "meshctl-entry-" + uid[:6], UID: uid, Node: "node-1"}
	if e.Pod != want || e.Name != c.Name+"/"+want.Name || resp.GetName() != e.Name || len(resp.GetMgmtAddresses()) == 0 || e.Version != "test" {
		t.Errorf("the entry %+v, the answer %q %q", e, resp.GetName(), resp.GetMgmtAddresses())
	}
	if left := time.Until(n.Leaf().NotAfter); left > mesh.MaxPodCertLife || left < mesh.MaxPodCertLife-time.Hour {
		t.Errorf("the certificate is good for %v, want a day", left)
	}
	again, _, err := w.enrollPod(t, c.ID, token)
	if err != nil || again.Identity() != n.Identity() || again.Leaf().SerialNumber.Cmp(n.Leaf().SerialNumber) == 0 {
		t.Fatalf("the same pod again: %v, %v; want %v with another certificate", again, err, n.Identity())
	}
	audit := call(t, admin.AuditList, w.local(t), admin.AuditListRequest{Actor: "node:" + n.Identity().Node()})
	joined := call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventEntryJoined, Object: n.Identity().Node()})
	if len(audit.Items) != 1 || len(joined.Items) != 1 || !strings.Contains(joined.Items[0].Cause, want.Name) {
		t.Errorf("%d records and %d events of one entry: %+v", len(audit.Items), len(joined.Items), joined.Items)
	}
	_, other := c.pod()
	if o, _, err := w.enrollPod(t, c.ID, other); err != nil || o.Identity() == n.Identity() {
		t.Errorf("another pod: %v, %v", o, err)
	}
}

// A container that restarts finds its identity in the pod's memory; where that is
// lost, and with it the key, the pod is the same entry still.
func TestAContainerThatRestartsIsTheSameEntry(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	dir := t.TempDir()
	files := map[string]string{"token": token, "mgmt": w.addr.Mesh}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	enroll := func(f *identity.Folder) *identity.Node {
		t.Helper()
		e, err := control.Enroll(t.Context(), control.EnrollConfig{
			Pod:  &control.Pod{Cluster: c.ID, Root: w.rootHash(), TokenFile: filepath.Join(dir, "token"), MgmtFile: filepath.Join(dir, "mgmt")},
			Role: mesh.RoleEntry, Folder: f, Version: "test", Wait: true, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return e.Node
	}
	f := newFolder(t)
	n := enroll(f)
	if kept, err := f.Load(); err != nil || kept.Identity() != n.Identity() {
		t.Errorf("kept: %v, %v", kept, err)
	}
	if renewed := enroll(f); renewed.Identity() != n.Identity() || identity.KeyHash(renewed.Leaf().PublicKey) == identity.KeyHash(n.Leaf().PublicKey) {
		t.Errorf("renewed as %v, or with the same key", renewed.Identity())
	}
	if lost := enroll(newFolder(t)); lost.Identity() != n.Identity() {
		t.Errorf("with an empty folder it is %v, want %v", lost.Identity(), n.Identity())
	}
}

// The same pod may ask several servers, or one several times, at once.
func TestAPodAtManyServersAtOnceIsOneEntry(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	const racers = 8
	nodes, errs := make([]*identity.Node, racers), make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() { nodes[i], _, errs[i] = w.enrollPod(t, c.ID, token) })
	}
	wg.Wait()
	for i := range racers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if nodes[i].Identity() != nodes[0].Identity() {
			t.Errorf("%d is %v, others %v", i, nodes[i].Identity(), nodes[0].Identity())
		}
	}
	joined := call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventEntryJoined, Object: nodes[0].Identity().Node()})
	if len(joined.Items) != 1 {
		t.Errorf("joined %d times", len(joined.Items))
	}
}

// Whoever is not let in learns nothing but that; why is in an event.
func TestWhoIsNoPodOfTheMesh(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, deleted := c.pod()
	c.forget(deleted)
	pod := func(change func(*kubetest.Review)) string {
		r := kubetest.Pod(c.Namespace, kube.Name, "p", "u-1", "n", c.audience)
		change(&r)
		return c.token(r)
	}
	foreign := podToken("meshctl:mesh-aaaaaaaaaaaaaaaa")
	c.mu.Lock()
	c.reviews[foreign] = kubetest.Pod(c.Namespace, kube.Name, "p", "u-1", "n", c.audience)
	c.mu.Unlock()
	_, good := c.pod()
	for name, try := range map[string]struct {
		cluster mesh.KubeID
		token   string
	}{
		"no cluster":                {"", good},
		"a hostile cluster":         {"../config", good},
		"an unknown cluster":        {mesh.NewKubeID(), good},
		"no token":                  {c.ID, ""},
		"no JWT":                    {c.ID, "abc"},
		"a token too long":          {c.ID, strings.Repeat("a", 20<<10)},
		"a token of another mesh":   {c.ID, foreign},
		"of the cluster's own API":  {c.ID, podToken("https://kubernetes.default.svc")},
		"unknown, ended or deleted": {c.ID, deleted},
		"of an audience that the cluster does not confirm": {c.ID, pod(func(r *kubetest.Review) { r.Audiences = nil })},
		"of two audiences":       {c.ID, pod(func(r *kubetest.Review) { r.Audiences = append(r.Audiences, "api") })},
		"accepted with an error": {c.ID, pod(func(r *kubetest.Review) { r.Error = "but" })},
		"of a person":            {c.ID, pod(func(r *kubetest.Review) { r.User = "ada" })},
		"of another namespace":   {c.ID, pod(func(r *kubetest.Review) { r.User = "system:serviceaccount:default:" + kube.Name })},
		"of another account":     {c.ID, pod(func(r *kubetest.Review) { r.User = "system:serviceaccount:edge:" + kube.Account })},
		"bound to no pod":        {c.ID, pod(func(r *kubetest.Review) { r.Extra = nil })},
		"bound to two pods": {c.ID, pod(func(r *kubetest.Review) {
			r.Extra["authentication.kubernetes.io/pod-uid"] = []string{"a", "b"}
		})},
	} {
		_, _, err := w.enrollPod(t, try.cluster, try.token)
		if mesh.Kind(err) != mesh.ErrDenied || err.Error() != errNoPod.Error() || mesh.Hint(err) != mesh.Hint(errNoPod) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := w.enrollPod(t, c.ID, good); err != nil {
		t.Errorf("the pod whose token was shown to others: %v", err)
	}
	if n := w.guesses(t, "somebody who says to be a pod"); n != 1 {
		t.Errorf("%d events tell of it, want 1 per address and ten minutes", n)
	}
}

// Not knowing is not denying: the entry goes on with what it has, and asks again.
func TestAClusterThatDoesNotAnswer(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	for name, f := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"cut": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"broken": func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusInternalServerError)
			return true
		},
		"our credential has ended": func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		},
	} {
		c.Before(f)
		if _, _, err := w.enrollPod(t, c.ID, token); mesh.Kind(err) != mesh.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Before(nil)
	c.Deny("create", "tokenreviews", true)
	if _, _, err := w.enrollPod(t, c.ID, token); mesh.Kind(err) != mesh.ErrUnavailable {
		t.Errorf("not permitted: %v", err)
	}
	if strings.Contains(w.logs.String(), token) || strings.Contains(w.logs.String(), c.Server.Token) {
		t.Error("a token is in the log")
	}
}

// K-07: who was revoked stays out as long as its pod is there, and whatever becomes
// of its record; the pod that takes its place comes in.
func TestARevokedPodStaysOut(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	n, _, err := w.enrollPod(t, c.ID, token)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if _, _, err := w.enrollPod(t, c.ID, token); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), "is revoked") {
			t.Errorf("%s: %v", when, err)
		}
	}
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: n.Identity().ID})
	refused("revoked")
	call(t, admin.EntryRemove, w.local(t), admin.Ref{Ref: n.Identity().ID})
	refused("revoked and removed")
	// A pod may outlive every certificate that it had.
	if yes, err := w.store.IsRevoked(t.Context(), n.Identity().Node(), "", time.Now().Add(mesh.Remembered-time.Hour)); err != nil || !yes {
		t.Errorf("a year later: %v, %v", yes, err)
	}
	_, next := c.pod()
	if _, _, err := w.enrollPod(t, c.ID, next); err != nil {
		t.Errorf("the pod after it: %v", err)
	}
}

// A certificate alone does not renew a pod's: the pod must still be there.
func TestAPodDoesNotRenewByItsCertificate(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	n, _, err := w.enrollPod(t, c.ID, token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renew(t, as(t, w.addr.Mesh, n), n.Identity()); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), "it is a pod") {
		t.Errorf("renewed by certificate: %v", err)
	}
	c.forget(token)
	if _, _, err := w.enrollPod(t, c.ID, token); mesh.Kind(err) != mesh.ErrDenied {
		t.Errorf("after the pod was deleted: %v", err)
	}
}

// What others noted of a pod gives way to what its cluster says now.
func TestAPodThatWasThoughtGoneIsBack(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	n, _, err := w.enrollPod(t, c.ID, token)
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, func(tx *store.Tx) error {
		return store.Update(tx, w.store.Entries, mesh.EntryID(n.Identity().ID), func(e *mesh.Entry) error { e.Pod.Gone = time.Now(); return nil })
	})
	if _, _, err := w.enrollPod(t, c.ID, token); err != nil {
		t.Fatal(err)
	}
	if e := w.entry(t, n); !e.Pod.Gone.IsZero() {
		t.Errorf("it is still gone: %+v", e.Pod)
	}
}
