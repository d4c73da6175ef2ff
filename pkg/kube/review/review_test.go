package review_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/kube/review"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "meshctl:mesh-aaaaaaaaaaaaaaaa"

// token is what a token with that audience claim looks like.
func token(aud any) mesh.Secret {
	claims, _ := json.Marshal(map[string]any{"aud": aud})
	part := base64.RawURLEncoding.EncodeToString
	return mesh.Secret(part([]byte(`{"alg":"RS256"}`)) + "." + part(claims) + "." + part([]byte("signature")))
}

func TestTheClusterSaysWhoseATokenIs(t *testing.T) {
	c := kubetest.New(t)
	mine := token([]string{audience})
	c.Tokens(func(got string, audiences []string) kubetest.Review {
		if got != mine.Reveal() || !slices.Equal(audiences, []string{audience}) {
			t.Errorf("asked about %q for %q", got, audiences)
		}
		return kubetest.Pod("edge", "meshctl-entry", "entry-1", "1b4e28ba-2fa1", "node-1", audience)
	})
	got, err := review.Token(t.Context(), c.API("edge"), audience, mine)
	want := review.Pod{Namespace: "edge", Account: "meshctl-entry", Name: "entry-1", UID: "1b4e28ba-2fa1", Node: "node-1"}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	api := c.API("edge")
	api.Server += "/"
	if _, err := review.Token(t.Context(), api, audience, mine); err != nil {
		t.Errorf("with a slash at the end: %v", err)
	}
}

// What cannot be a token for this mesh is no burden to a cluster.
func TestTheClusterIsNotAskedAboutEverything(t *testing.T) {
	c := kubetest.New(t)
	part := base64.RawURLEncoding.EncodeToString
	for name, tok := range map[string]mesh.Secret{
		"nothing":                  "",
		"a word":                   "abc",
		"two parts":                mesh.Secret(part([]byte("{}")) + "." + part([]byte("{}"))),
		"an empty part":            token(audience)[:strings.LastIndexByte(string(token(audience)), '.')+1],
		"another alphabet":         mesh.Secret("a+b." + part([]byte("{}")) + ".c"),
		"claims that do not read":  mesh.Secret("aaaa." + part([]byte("{")) + ".aaaa"),
		"too long":                 mesh.Secret(strings.Repeat("a", review.MaxToken)) + token(audience),
		"a line more":              token(audience) + "\n",
		"no audience":              token(nil),
		"the cluster's own API":    token([]string{"https://kubernetes.default.svc"}),
		"another mesh":             token("meshctl:mesh-bbbbbbbbbbbbbbbb"),
		"this mesh and the API":    token([]string{audience, "https://kubernetes.default.svc"}),
		"audience of another form": token(map[string]any{"a": audience}),
	} {
		if _, err := review.Token(t.Context(), c.API("edge"), audience, tok); mesh.Kind(err) != mesh.ErrDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := c.Requests(); len(n) > 0 {
		t.Errorf("asked %q", n)
	}
	for _, tok := range []mesh.Secret{token(audience), token([]string{audience})} { // as RFC 7519 has it
		_, err := review.Token(t.Context(), c.API("edge"), audience, tok)
		if asked := c.Requests(); mesh.Kind(err) != mesh.ErrDenied || len(asked) != 1 {
			t.Errorf("a token that the cluster does not know: %v, asked %q", err, asked)
		}
	}
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// api serves f over TLS.
func api(t *testing.T, f http.HandlerFunc) kube.API {
	t.Helper()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or nobody notices that the other side has gone
		f(w, r)
	}))
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	return kube.API{Server: srv.URL, CA: pemOf(srv.Certificate().Raw), Auth: mesh.KubeToken, Credential: "credential-of-ours"}
}

// Only the cluster's own word is a no; everything else is that it does not answer.
func TestWhatIsNoAnswer(t *testing.T) {
	yes := func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"audiences":[%q],
			"user":{"username":"system:serviceaccount:a:b","extra":{"authentication.kubernetes.io/pod-name":["p"],"authentication.kubernetes.io/pod-uid":["u"]}}}}`, audience)
	}
	elsewhere := api(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	for name, f := range map[string]http.HandlerFunc{
		"no JSON":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); fmt.Fprint(w, "<html>") },
		"another kind": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); fmt.Fprint(w, `{"kind":"Status"}`) },
		"another version": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			fmt.Fprint(w, `{"apiVersion":"v2","kind":"TokenReview"}`)
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			fmt.Fprint(w, strings.Repeat(" ", 70<<10))
			yes(w)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(201)
			fmt.Fprint(w, "{")
		},
		"an error of ours":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); yes(w) },
		"credential unknown": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"not permitted":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
		"not there":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"too many requests":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"broken":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"somewhere else": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.Server, http.StatusTemporaryRedirect)
		},
		"silent until the end": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end of what is said": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := review.Token(t.Context(), api(t, f), audience, token(audience))
			if mesh.Kind(err) != mesh.ErrUnavailable {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			for _, secret := range []string{"credential-of-ours", token(audience).Reveal()} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("a secret is in %q", err)
				}
			}
		})
	}
	good := api(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer credential-of-ours" {
			t.Errorf("as %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusCreated)
		yes(w)
	})
	if p, err := review.Token(t.Context(), good, audience, token(audience)); err != nil || p.Node != "" {
		t.Errorf("a cluster that does not say the node: %+v, %v", p, err)
	}
	for name, change := range map[string]func(*kube.API){
		"of another CA":              func(a *kube.API) { a.CA = pemOf(identitytest.New(t).Root.Raw) },
		"of no CA that we know":      func(a *kube.API) { a.CA = "" },
		"with a CA that is none":     func(a *kube.API) { a.CA = "PEM" },
		"under another name":         func(a *kube.API) { a.ServerName = "api.example.net" },
		"at an address that is none": func(a *kube.API) { a.Server = "://" },
		"with a certificate that is none": func(a *kube.API) {
			a.Auth = mesh.KubeCertificate
		},
	} {
		other := good
		change(&other)
		if _, err := review.Token(t.Context(), other, audience, token(audience)); mesh.Kind(err) != mesh.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
