package kubetest

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Version is what the server says of itself.
const Version = "v1.99.0-test"

// Server is an API.
type Server struct {
	URL   string
	CA    string // PEM
	Token string // that it knows

	http    *httptest.Server
	schemas schemas

	mu        sync.Mutex // of all below
	objects   map[key]*unstructured.Unstructured
	history   []change
	more      chan struct{} // closed with each change
	revision  int64
	compacted int64
	missing   map[string]bool // namespaces
	unguarded map[string]bool // namespaces
	anew      int             // how often the namespaces were made anew
	denied    map[string]bool // "verb resource"
	trusted   []byte          // DER of a client's certificate that is known
	requests  []string
	before    func(http.ResponseWriter, *http.Request) bool
	logs      map[string]string // by pod, and "pod previous"
	events    []event
	reviews   func(token string, audiences []string) Review
	changed   []func(key)
}

// New serves until the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	kinds, err := newSchemas()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Token: "token-of-management", schemas: kinds, objects: make(map[key]*unstructured.Unstructured), more: make(chan struct{}),
		revision: 1000, missing: make(map[string]bool), unguarded: make(map[string]bool), denied: make(map[string]bool), logs: make(map[string]string),
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.StartTLS()
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	s.URL = s.http.URL
	s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}))
	return s
}

// API is how it is reached, by the token that it knows.
func (s *Server) API(namespace string) kube.API {
	return kube.API{Server: s.URL, CA: s.CA, Auth: mesh.KubeToken, Credential: mesh.Secret(s.Token), Namespace: namespace}
}

// Trust makes a client's certificate known, DER.
func (s *Server) Trust(certificate []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusted = certificate
}

// Before is called for each request; when it returns true it has answered, or spoilt,
// the request itself. nil ends that.
func (s *Server) Before(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Cut ends every connection, and with it every watch.
func (s *Server) Cut() { s.http.CloseClientConnections() }

// Forget makes every revision before now unknown: who watches from one gets 410.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
	s.history = nil
}

// Missing makes a namespace one that is not there, or is again.
func (s *Server) Missing(namespace string, missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing[namespace] = missing
}

// Anew makes all namespaces others of the same names.
func (s *Server) Anew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anew++
}

// Unguard takes the label of Pod Security from a namespace, or gives it back.
func (s *Server) Unguard(namespace string, unguarded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unguarded[namespace] = unguarded
}

// Deny refuses a verb, as RBAC names it, for a resource.
func (s *Server) Deny(verb, resource string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[verb+" "+resource] = denied
}

// Log is what a pod's container wrote, or the one before it.
func (s *Server) Log(pod, text string, previous bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if previous {
		pod += " previous"
	}
	s.logs[pod] = text
}

// Requests are those since the last call that were not refused by Before: "apply
// Deployment/name", "list Pod", …
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// Writes are those of Requests that write.
func (s *Server) Writes() []string {
	return slices.DeleteFunc(s.Requests(), func(r string) bool {
		return !slices.ContainsFunc([]string{"apply ", "create ", "delete "}, func(verb string) bool { return len(r) > len(verb) && r[:len(verb)] == verb })
	})
}
