package cmd

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt"
)

// hearsOfAlert goes the whole way: a webhook is added, tested, and told of a cell
// that is compromised, by the child of a server.
func hearsOfAlert(t *testing.T, server mgmt.Addresses) {
	const secret = "0123456789abcdef"
	got := make(chan chores.Posted, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var p chores.Posted
		if err != nil || json.Unmarshal(body, &p) != nil {
			t.Errorf("posted %q, %v", body, err)
		}
		// The time of the signature is that of a moment ago.
		signed := false
		for ago := range 60 {
			signed = signed || r.Header.Get(chores.SignatureHeader) == chores.Sign(secret, time.Now().Add(-time.Duration(ago)*time.Second), body)
		}
		if !signed {
			t.Errorf("signature %q", r.Header.Get(chores.SignatureHeader))
		}
		got <- p
	}))
	defer srv.Close()
	dir := t.TempDir()
	private := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append([]string{"admin", "--socket", server.Socket}, args...), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	run("alert", "webhook", "add", "whole-way", "--url-file", private("url", srv.URL), "--secret-file", private("secret", secret))
	run("alert", "webhook", "test", "whole-way", "--wait", "2m")
	if p := <-got; p.Kind != mesh.NoticeTest {
		t.Errorf("the test was %+v", p)
	}
	run("cell", "add", "hooked", "hooked.example.net")
	run("cell", "compromise", "hooked", "--yes")
	select {
	case p := <-got:
		if p.Kind != mesh.NoticeAlert || p.Alert == nil || p.Alert.Rule != alert.CellCompromised || p.Alert.State != mesh.AlertFiring {
			t.Errorf("heard %+v", p)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was heard of the cell")
	}
	if out := run("alert", "show", "cell/hooked"); !strings.Contains(out, "firing") || !strings.Contains(out, "cell/hooked") {
		t.Errorf("shown:\n%s", out)
	}
	run("alert", "ack", "cell/hooked")
	run("cell", "remove", "hooked", "--yes")
	run("alert", "webhook", "remove", "whole-way", "--yes")
}
