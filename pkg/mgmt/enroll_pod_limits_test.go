package mgmt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// newPods is the part of a server that lets pods in, with counters of its own.
func newPods(w *world, wrong, fresh, expected int) *pods {
	log := new(logBuffer).logger()
	return &pods{
		store: w.store, mesh: w.keys.Mesh, log: log, now: time.Now,
		suspect: newSuspicion(w.store, wrong, log, time.Now),
		limits:  podLimits{fresh: ratelimit.New[mesh.KubeID](0, fresh), expected: ratelimit.New[mesh.EntryID](0, expected)},
	}
}

// claimed is what looks like the token of a pod with that UID.
func (c *testCluster) claimed(uid string) *controlpb.PodProof {
	claims, _ := json.Marshal(map[string]any{"aud": []string{c.audience}, "kubernetes.io": map[string]any{"pod": map[string]any{"uid": uid}}})
	part := base64.RawURLEncoding.EncodeToString
	return &controlpb.PodProof{Cluster: string(c.ID), Token: part([]byte(`{"alg":"RS256"}`)) + "." + part(claims) + "." + part([]byte("signature"))}
}

// A cluster says itself which pods it has: one that makes them up must not fill the
// store of the whole mesh.
func TestAClusterThatMakesUpPods(t *testing.T) {
	w := getWorld(t)
	c, other := w.cluster(t), w.cluster(t)
	p := newPods(w, 10, 2, 0)
	admit := func(c *testCluster, n int) error {
		pod := mesh.EntryPod{Cluster: c.ID, Namespace: "edge", Name: fmt.Sprint("pod-", n), UID: fmt.Sprint("uid-", n)}
		_, err := p.admit(t.Context(), mesh.PodEntryID(c.ID, pod.UID), pod, "test")
		return rpcstatus.From(err)
	}
	for n := range 2 {
		if err := admit(c, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit(c, 2); mesh.Kind(err) != mesh.ErrUnavailable {
		t.Errorf("one too many: %v", err)
	}
	if err := admit(c, 0); err != nil {
		t.Errorf("one that is an entry already: %v", err)
	}
	if err := admit(other, 0); err != nil {
		t.Errorf("one of another cluster: %v", err)
	}
	told := call(t, admin.EventList, w.local(t), admin.EventListRequest{Type: mesh.EventTokenGuess, Object: "kube/" + string(c.ID)})
	if len(told.Items) != 1 {
		t.Errorf("%d events tell of it", len(told.Items))
	}
}

// Whatever else has the address of a pod shows nonsense: that pod is asked about still.
func TestNeighboursDoNotKeepAPodFromRenewing(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	uid, token := c.pod()
	if _, _, err := w.enrollPod(t, c.ID, token); err != nil {
		t.Fatal(err)
	}
	p := newPods(w, 1, 10, 2)
	from := netip.MustParseAddr("198.51.100.77")
	// What has no request for a certificate is refused after the limits, and before
	// anybody is asked.
	show := func(proof *controlpb.PodProof) error {
		_, err := p.enroll(t.Context(), from, &controlpb.EnrollRequest{Role: "entry", Pod: proof})
		return mesh.Kind(rpcstatus.From(err))
	}
	p.suspect.wrong.Allow(from, time.Now())
	for name, try := range map[string]*controlpb.PodProof{
		"nothing": nil, "a token without a pod": {Cluster: string(c.ID), Token: token}, "an unknown pod": c.claimed("uid-of-nobody"),
		"a pod of another cluster": {Cluster: string(mesh.NewKubeID()), Token: c.claimed(uid).GetToken()},
	} {
		if err := show(try); err != mesh.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		if err := show(c.claimed(uid)); err != mesh.ErrInvalid {
			t.Errorf("the pod itself: %v", err)
		}
	}
	if err := show(c.claimed(uid)); err != mesh.ErrUnavailable {
		t.Errorf("the pod again and again: %v", err)
	}
}
