package chores

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestHowAPingEnds(t *testing.T) {
	const patient = 300 * time.Millisecond
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write(make([]byte, 1<<10)); err == nil; _, err = w.Write(make([]byte, 1<<10)) {
		}
	})
	mux.HandleFunc("/huge-head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 4*maxAnswer)) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/referred", http.StatusFound) })
	mux.HandleFunc("/referred", func(w http.ResponseWriter, r *http.Request) {
		if r.Referer() != "" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/https", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+"/ok", http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()

	for _, c := range []struct{ name, url, want string }{
		{"an answer", srv.URL + "/ok", "done"},
		{"an answer of another kind", srv.URL + "/gone", "status"},
		{"no answer", srv.URL + "/silent", "timeout"},
		{"an answer without end", srv.URL + "/endless", "done"},
		{"a head without end", srv.URL + "/huge-head", "other"},
		{"a redirect, which does not learn the URL", srv.URL + "/moved", "done"},
		{"redirects in a circle", srv.URL + "/circle", "redirect"},
		{"a redirect to a file", srv.URL + "/file", "redirect"},
		{"a redirect to another scheme", srv.URL + "/https", "redirect"},
		{"nobody there", "http://" + freeport.Addr(t), "connection"},
		{"a certificate of nobody", secure.URL, "certificate"},
		{"a name that does not exist", "http://nothing.invalid/", "name"},
		{"no TLS", strings.Replace(srv.URL, "http:", "https:", 1), "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRequester()
			r.client.Timeout = 10 * time.Second
			if c.want == "timeout" {
				r.client.Timeout = patient
			}
			got := r.ask(t.Context(), c.url)
			if word, _ := outcome(got); word != c.want {
				_, err := r.get(t.Context(), c.url)
				t.Errorf("%v (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestURLsToPing(t *testing.T) {
	for _, good := range []string{"https://watch.example/ping/1", "http://10.0.0.1:8080/x?y=z", "https://user:pass@watch.example"} {
		if got, err := ParseURL(mesh.Secret(good)); err != nil || got.Reveal() != good {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "watch.s3cret/ping", "ftp://s3cret/", "file:///s3cret", "https://", "https:///s3cret", "http://s3cret:port/", "http://s3cret/%zz", "http://x/" + strings.Repeat("s3cret", 1000)} {
		_, err := ParseURL(mesh.Secret(bad))
		if mesh.Kind(err) != mesh.ErrInvalid || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTheURLIsTakenOutOfWhatIsSaid(t *testing.T) {
	p := Ping{URL: "https://user:pa55@watch.example:444/ping/abc-def?k=v-v-v"}
	said := []string{
		p.URL.Reveal(), `Get "` + p.URL.Reveal() + `": EOF`, "lookup watch.example:444", "/ping/abc-def", "k=v-v-v", "user:pa55",
	}
	for _, s := range said {
		if got := p.redact("panic: " + s); !strings.HasPrefix(got, "panic: ") || strings.Contains(got, "abc-def") || strings.Contains(got, "pa55") || strings.Contains(got, "v-v-v") || strings.Contains(got, "watch.example:444") {
			t.Errorf("%q", got)
		}
	}
	if got := (Ping{}).redact("x"); got != "x" {
		t.Errorf("%q", got)
	}
}

func TestEveryOutcomeHasAWordAndAText(t *testing.T) {
	for n := range controlpb.PingOutcome_Result_name {
		word, text := outcome(&controlpb.PingOutcome{Result: controlpb.PingOutcome_Result(n), Status: 500})
		if word == "" || (text == "") != (word == done) {
			t.Errorf("%d: %q, %q", n, word, text)
		}
	}
}
