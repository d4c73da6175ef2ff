package acme

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// cloud answers as version 4 of the API is documented to.
type cloud struct {
	mu      sync.Mutex // guards what follows
	records map[string]cloudflareRecord
	n       int
	answer  string // instead of what follows
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := func(status int, result any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"success": status == 200, "errors": []any{}, "messages": []any{}, "result": result})
	}
	path := strings.TrimPrefix(r.URL.Path, "/client/v4")
	switch {
	case c.answer != "":
		_, _ = w.Write([]byte(c.answer))
	case r.Header.Get("Authorization") != "Bearer the-token":
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}],"result":null}`))
	case r.Method == "GET" && path == "/zones":
		var out []map[string]string
		if r.URL.Query().Get("name") == "example.net" {
			out = append(out, map[string]string{"id": "z1", "name": "example.net"})
		}
		reply(200, out)
	case r.Method == "POST" && path == "/zones/z1/dns_records":
		var rec cloudflareRecord
		if json.NewDecoder(r.Body).Decode(&rec) != nil || rec.Type != "TXT" || rec.TTL < 60 || rec.Content[0] != '"' {
			reply(400, nil)
			return
		}
		c.n++
		rec.ID = fmt.Sprint("r", c.n)
		c.records[rec.ID] = rec
		reply(200, rec)
	case r.Method == "GET" && path == "/zones/z1/dns_records":
		out := []cloudflareRecord{}
		for _, rec := range c.records {
			if rec.Name == r.URL.Query().Get("name") && rec.Type == r.URL.Query().Get("type") {
				out = append(out, rec)
			}
		}
		reply(200, out)
	case r.Method == "DELETE" && strings.HasPrefix(path, "/zones/z1/dns_records/"):
		delete(c.records, strings.TrimPrefix(path, "/zones/z1/dns_records/"))
		reply(200, map[string]string{})
	default:
		reply(404, nil)
	}
}

func newCloud(t *testing.T, token mesh.Secret) (*cloud, Provider) {
	t.Helper()
	c := &cloud{records: map[string]cloudflareRecord{}}
	srv := httptest.NewTLSServer(c)
	t.Cleanup(srv.Close)
	p, err := NewProvider(mesh.DNSProvider{Kind: mesh.DNSCloudflare, Server: srv.URL + "/client/v4"}, token, srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

func TestCloudflareRecordsComeAndGo(t *testing.T) {
	c, p := newCloud(t, "the-token")
	const name = "_acme-challenge.a.example.net"
	for _, text := range []string{"one", "two"} {
		if err := p.Add(t.Context(), "example.net", name, text); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.records) != 2 {
		t.Fatalf("records %v", c.records)
	}
	for range 2 { // that it is gone is no error
		if err := p.Remove(t.Context(), "example.net", name, "one"); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.records) != 1 || c.records["r2"].Content != `"two"` {
		t.Errorf("left %v", c.records)
	}
}

func TestCloudflareSaysNo(t *testing.T) {
	for what, tt := range map[string]struct {
		token, zone, answer, want string
	}{
		"a wrong token":           {token: "wrong", zone: "example.net", want: "Invalid access token (9109)"},
		"a zone it does not see":  {token: "the-token", zone: "example.org", want: "no zone example.org"},
		"an answer of no form":    {token: "the-token", zone: "example.net", answer: "<html>", want: "no usable answer"},
		"a result of no form":     {token: "the-token", zone: "example.net", answer: `{"success":true,"result":"x"}`, want: "another form"},
		"an answer without end":   {token: "the-token", zone: "example.net", answer: `{"success":true,"result":"` + strings.Repeat("x", maxAPIAnswer), want: "no usable answer"},
		"no success and no words": {token: "the-token", zone: "example.net", answer: `{}`, want: "no usable answer"},
	} {
		c, p := newCloud(t, mesh.Secret(tt.token))
		c.answer = tt.answer
		err := p.Add(t.Context(), tt.zone, "x."+tt.zone, "text")
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "the-token") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
