package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/kubetest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// status answers as the API does when it refuses.
func status(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, message, code)
}

func TestEachFailureHasItsName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil  func(http.ResponseWriter, *http.Request) bool
		want   kube.Failure
		detail string
	}{
		"the credential has ended": {func(w http.ResponseWriter, _ *http.Request) bool {
			status(w, 401, "Unauthorized")
			return true
		}, kube.Credential, "Unauthorized"},
		"it wants to be left alone": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			status(w, 429, "busy")
			return true
		}, kube.Limited, "left alone for a while"},
		"it is broken": {func(w http.ResponseWriter, _ *http.Request) bool {
			status(w, 500, "etcdserver: request timed out")
			return true
		}, kube.Broken, "etcdserver: request timed out"},
		"it is another server": {func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>hello</html>")
			return true
		}, kube.Broken, "not that of a Kubernetes API"},
		"it sends elsewhere": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://example.net/", http.StatusFound)
			return true
		}, kube.Other, "where the credential does not go"},
		"it does not answer": {func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, kube.Unreachable, "no answer in time"},
		"it drops the connection": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, kube.Unreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.New(t)
			s.Before(tt.spoil)
			p := quick()
			p.request = 500 * time.Millisecond
			d := open(t, s, p)
			d.set(layer(), 1, first)
			o := d.until(0, "has failed", func(o kube.Observation) bool { return o.Failure != kube.NoFailure })
			if o.Failure != tt.want || !strings.Contains(o.Detail, tt.detail) || o.Applied || o.Removed {
				t.Errorf("it says %q: %q; want %q: %q", o.Failure, o.Detail, tt.want, tt.detail)
			}
			if strings.Contains(fmt.Sprintf("%+v", o), s.Token) {
				t.Error("the token is in the report")
			}
			s.Before(nil)
			if tt.want != kube.Limited { // which would be waited for
				d.until(0, "is applied", func(o kube.Observation) bool { return o.Applied && o.Failure == kube.NoFailure })
			}
		})
	}
}

func TestWhoIsNotTrustedOrNotThere(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	_, otherCA := newPair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "https://" + l.Addr().String()
	l.Close()
	plain := &http.Server{Handler: http.NotFoundHandler()}
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go plain.Serve(l)
	t.Cleanup(func() { plain.Close() })
	for name, tt := range map[string]struct {
		edit func(*kube.API)
		want kube.Failure
	}{
		"another CA":             {func(a *kube.API) { a.CA = otherCA }, kube.Untrusted},
		"another name":           {func(a *kube.API) { a.ServerName = "other.example.net" }, kube.Untrusted},
		"nobody listens":         {func(a *kube.API) { a.Server = closed }, kube.Unreachable},
		"it does not speak TLS":  {func(a *kube.API) { a.Server = "https://" + l.Addr().String() }, kube.Unreachable},
		"the token is another's": {func(a *kube.API) { a.Credential = "wrong" }, kube.Credential},
		"the CA is no PEM":       {func(a *kube.API) { a.CA = "nothing" }, kube.Other},
		"it is not https":        {func(a *kube.API) { a.Server = "http://127.0.0.1:1" }, kube.Other},
	} {
		t.Run(name, func(t *testing.T) {
			api := s.API(space)
			tt.edit(&api)
			a := Ask(t.Context(), kube.Ask{Kind: kube.AskCheck, API: api, Mesh: theMesh, Cluster: cluster})
			if name == "the token is another's" && a.Failure == kube.NoFailure {
				t.Error("it was let in")
			}
			if a.Failure != tt.want || a.Detail == "" {
				t.Errorf("it says %+v; want %q", a, tt.want)
			}
			d := open(t, s, quick())
			w := d.work(objects(t, layer(), 1, first), 1, first)
			w.API = api
			d.keeper.Set(w)
			d.until(0, "says so", func(o kube.Observation) bool { return o.Failure == tt.want })
			// Another connection begins anew.
			d.set(layer(), 1, first)
			d.until(0, "is applied", func(o kube.Observation) bool { return o.Applied })
		})
	}
}

func TestARightThatIsMissingHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	s.Deny("patch", "networkpolicies", true)
	s.Deny("list", "horizontalpodautoscalers", true)
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	o := d.until(0, "has pods", func(o kube.Observation) bool { return o.Ready == 2 && len(o.Problems) == 1 })
	if o.Failure != kube.Denied || o.Applied || !strings.Contains(o.Problems[0], "NetworkPolicy/meshctl-entry: ") {
		t.Errorf("it says %+v", o)
	}
	s.Deny("patch", "networkpolicies", false)
	s.Deny("list", "horizontalpodautoscalers", false)
	d.until(0, "is complete", isComplete(1))
}

func TestANamespaceThatIsNotThereIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	s.Missing(space, true)
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	o := d.until(0, "has problems", func(o kube.Observation) bool { return len(o.Problems) > 0 })
	if !strings.Contains(o.Problems[0], `namespaces "entries" not found`) {
		t.Errorf("it says %q", o.Problems)
	}
	s.Missing(space, false)
	d.until(0, "is complete", isComplete(1))
}

func TestWatchesGoOnAfterTheyWereCutOrForgotten(t *testing.T) {
	t.Parallel()
	s, d := started(t, layer())
	for i, harm := range []func(){s.Cut, func() { s.Forget(); s.Cut() }, s.Cut} {
		harm()
		s.Delete(t, "Service", space, kube.Name)
		eventually(t, fmt.Sprintf("the Service is back after %d", i), func() bool { return s.Get(t, "Service", space, kube.Name) != nil })
		seen := d.now()
		d.until(seen, "is well", func(o kube.Observation) bool { return o.Applied && o.Failure == kube.NoFailure })
	}
}

// A watch that stands, says nothing, and misses what happens.
func TestAWatchThatIsSilentIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	var deaf atomic.Bool
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if deaf.Load() && r.URL.Query().Get("watch") != "" {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}
		return false
	})
	p := quick()
	p.quiet = 500 * time.Millisecond
	d := open(t, s, p)
	deaf.Store(true)
	d.set(layer(), 1, first)
	eventually(t, "it was made", func() bool { return s.Get(t, "Service", space, kube.Name) != nil })
	deaf.Store(false)
	d.until(0, "is complete", isComplete(1))
}

// 410 again and again, watches that end at once, and answers that cannot be read: an
// API that is broken like that is asked less and less.
func TestABrokenAPIIsNotAskedWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(http.ResponseWriter){
		"every revision is gone": func(w http.ResponseWriter) { status(w, 410, "too old resource version") },
		"watches end at once":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
		"events are nonsense":    func(w http.ResponseWriter) { fmt.Fprint(w, `{"type":"ADDED","object":{"a"`) },
		"lists fail":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.New(t)
			var asked atomic.Int64
			s.Before(func(w http.ResponseWriter, r *http.Request) bool {
				watch := r.URL.Query().Get("watch") != ""
				list := strings.HasSuffix(r.URL.Path, "/pods")
				if !list {
					return false
				}
				asked.Add(1)
				switch {
				case watch && spoil != nil:
					spoil(w)
				case spoil == nil:
					status(w, 500, "no")
				default:
					return false
				}
				return true
			})
			p := quick()
			p.min, p.max = 100*time.Millisecond, 400*time.Millisecond
			d := open(t, s, p)
			d.set(layer(), 1, first)
			began := time.Now()
			eventually(t, "it was asked", func() bool { return asked.Load() >= 6 })
			// List and watch are one attempt, of which the waits are 50, 100, 200, … ms at least.
			if spent := time.Since(began); spent < 100*time.Millisecond {
				t.Errorf("six requests in %v", spent)
			}
			d.stop()
		})
	}
}

func TestAnAnswerThatIsTooLongIsNotRead(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/services") {
			return false
		}
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range 40 {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		return true
	})
	p := quick()
	p.request = patience
	d := open(t, s, p)
	d.set(layer(), 1, first)
	o := d.until(0, "fails", func(o kube.Observation) bool { return o.Failure != kube.NoFailure })
	if o.Failure != kube.Broken || o.Detail != "the answer is too long" {
		t.Errorf("it says %q: %q", o.Failure, o.Detail)
	}
}

// A watch tells of no more objects than a list may have, however many an API makes up.
func TestAWatchDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	w := &watcher{kind: kind{name: "Pod"}, cache: newCache()}
	w.cache.replace("Pod", make([]unstructured.Unstructured, 0))
	tell := func(what watch.EventType, n int) error {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(fmt.Sprint("pod-", n))
		_, err := w.take(watch.Event{Type: what, Object: o}, "1")
		return err
	}
	for n := range maxObjects {
		if err := tell(watch.Added, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := tell(watch.Added, maxObjects); !errors.Is(err, errTooMany) {
		t.Errorf("one too many: %v", err)
	}
	if err := tell(watch.Modified, 7); err != nil {
		t.Errorf("one that is known: %v", err)
	}
	if err := errors.Join(tell(watch.Deleted, 7), tell(watch.Added, maxObjects)); err != nil {
		t.Errorf("one in the place of another: %v", err)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	s.Roll(t, nil)
	var refused atomic.Int64 // when
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || !refused.CompareAndSwap(0, time.Now().UnixNano()) {
			return false
		}
		w.Header().Set("Retry-After", "2")
		status(w, 429, "busy")
		return true
	})
	d := open(t, s, quick())
	d.set(layer(), 1, first)
	d.until(0, "is limited", func(o kube.Observation) bool { return o.Failure == kube.Limited })
	d.until(0, "is complete", isComplete(1))
	if spent := time.Since(time.Unix(0, refused.Load())); spent < 2*time.Second {
		t.Errorf("it went on after %v", spent)
	}
}

func TestACertificateIsACredential(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t)
	der, text := newPair(t)
	api := s.API(space)
	api.Auth, api.Credential = mesh.KubeCertificate, mesh.Secret(text)
	check := func() kube.Answer {
		return Ask(t.Context(), kube.Ask{Kind: kube.AskCheck, API: api, Mesh: theMesh, Cluster: cluster})
	}
	if a := check(); a.Failure != kube.Credential {
		t.Errorf("nobody knows it, and it says %+v", a)
	}
	s.Trust(der)
	if a := check(); a.Failure != kube.NoFailure || a.Version == "" {
		t.Errorf("it is known, and it says %+v", a)
	}
	api.Credential = "neither"
	if a := check(); a.Failure != kube.Other || !strings.Contains(a.Detail, "not a certificate and its key") {
		t.Errorf("it is none, and it says %+v", a)
	}
}

// A server in front that asks for a certificate of its own, before any request is read.
func TestACertificateThatIsRefusedIsACredentialThatIsRefused(t *testing.T) {
	t.Parallel()
	front := httptest.NewUnstartedServer(http.NotFoundHandler())
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	front.StartTLS()
	t.Cleanup(front.Close)
	_, text := newPair(t)
	api := kube.API{
		Server: front.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})),
		Auth: mesh.KubeCertificate, Credential: mesh.Secret(text), Namespace: space,
	}
	if a := Ask(t.Context(), kube.Ask{Kind: kube.AskCheck, API: api}); a.Failure != kube.Credential {
		t.Errorf("it says %+v", a)
	}
}

// newPair is a certificate of itself, and it and its key as PEM.
func newPair(t *testing.T) ([]byte, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}
