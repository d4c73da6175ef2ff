package mgmt

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/control/rpcstatus"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// testCluster is a cluster of the mesh, and what it knows of tokens.
type testCluster struct {
	*kubetest.Server
	mesh.KubeCluster
	audience string

	mu      sync.Mutex // guards reviews
	reviews map[string]kubetest.Review
}

func (r *running) cluster(t *testing.T) *testCluster {
	t.Helper()
	c := &testCluster{Server: kubetest.New(t), audience: kube.Audience(r.keys.Mesh), reviews: map[string]kubetest.Review{}}
	c.Tokens(func(token string, audiences []string) kubetest.Review {
		if !slices.Equal(audiences, []string{c.audience}) {
			return kubetest.Review{Error: fmt.Sprintf("asked about %q", audiences)}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reviews[token]
	})
	id := mesh.NewKubeID()
	sealed, err := r.store.Seal(store.KubeCredentialPlace(id), mesh.Secret(c.Server.Token))
	if err != nil {
		t.Fatal(err)
	}
	c.KubeCluster = mesh.KubeCluster{
		ID: id, Name: "c" + string(id[len(id)-6:]), Server: c.URL, CA: c.Server.CA, Auth: mesh.KubeToken, Credential: sealed,
		Namespace: "edge", NamespaceUID: "of-" + string(id), Added: time.Now(),
	}
	r.write(t, func(tx *store.Tx) error { return store.Create(tx, r.store.Kubes, id, c.KubeCluster) })
	return c
}

func (r *running) write(t *testing.T, f func(*store.Tx) error) {
	t.Helper()
	if _, err := r.store.Change(t.Context(), store.By{Actor: "test"}, "test", f); err != nil {
		t.Fatal(err)
	}
}

// token makes a token that the cluster says that of.
func (c *testCluster) token(r kubetest.Review) string {
	text := podToken(c.audience)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews[text] = r
	return text
}

// forget has the cluster deny a token: the pod was deleted, or the token has ended.
func (c *testCluster) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reviews, token)
}

// pod is a pod of the entry layer with a token.
func (c *testCluster) pod() (uid, token string) {
	uid = mesh.NewSecret(16).Reveal()[:20]
	uid = fmt.Sprintf("%x", uid)
	return uid, c.token(kubetest.Pod(c.Namespace, kube.Name, "meshctl-entry-"+uid[:6], uid, "node-1", c.audience))
}

// podToken looks like a token for an audience, and is none twice.
func podToken(audience string) string {
	claims, _ := json.Marshal(map[string]any{"aud": []string{audience}, "jti": mesh.NewID()})
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(claims) + "." + part([]byte("signature"))
}

// enrollPod shows a token with a new key.
func (r *running) enrollPod(t *testing.T, cluster mesh.KubeID, token string) (*identity.Node, *controlpb.EnrollResponse, error) {
	t.Helper()
	key := identitytest.Key(t)
	resp, err := controlpb.NewEnrollmentClient(stranger(t, r.addr.Mesh, r.rootHash())).Enroll(t.Context(), &controlpb.EnrollRequest{
		Csr: request(t, new(x509.CertificateRequest), key), Role: "entry", Version: "test",
		Pod: &controlpb.PodProof{Cluster: string(cluster), Token: token},
	})
	if err != nil {
		return nil, nil, rpcstatus.From(err)
	}
	leaf, err := x509.ParseCertificate(resp.GetChain()[0])
	if err != nil {
		t.Fatal(err)
	}
	id, err := mesh.ParseIdentity(leaf.URIs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := identity.NewNode(id, resp.GetChain(), key)
	if err != nil {
		t.Fatal(err)
	}
	return n, resp, nil
}

// entry is the record of a node.
func (r *running) entry(t *testing.T, n *identity.Node) mesh.Entry {
	t.Helper()
	e, err := r.store.Entries.Get(t.Context(), mesh.EntryID(n.Identity().ID))
	if err != nil {
		t.Fatal(err)
	}
	return e.Value
}
