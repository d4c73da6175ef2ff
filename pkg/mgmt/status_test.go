package mgmt

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestStatusSaysWhatTheServerLivesBy(t *testing.T) {
	w := getWorld(t)
	var s admin.ServerStatus
	eventually(t, "there is no problem", func() bool { // as there is one while the store takes its time
		s = call(t, admin.ServerStatusGet, w.local(t), admin.None{})
		// Other tests link Telegram accounts in the same mesh, which has no bot.
		s.Problems = slices.DeleteFunc(s.Problems, func(p string) bool { return strings.Contains(p, "bot.token-file") })
		return len(s.Problems) == 0
	})
	if s.Name != "alpha" || s.Version != "test" || s.Server != w.keys.Server {
		t.Errorf("status: %+v", s)
	}
	if s.Etcd.Leader == "" || s.Etcd.Revision == 0 || s.Etcd.Bytes == 0 || s.Etcd.Quota != w.conf.Etcd.Quota || s.Etcd.Members != 1 {
		t.Errorf("etcd: %+v", s.Etcd)
	}
	var what []string
	for _, c := range s.Certificates {
		what = append(what, c.What)
		if c.Ends.Before(time.Now()) {
			t.Errorf("%s ended at %v", c.What, c.Ends)
		}
	}
	if want := []string{"node", "intermediate", "root", "etcd", "etcd CA"}; !slices.Equal(what, want) {
		t.Errorf("certificates %v, want %v", what, want)
	}
}

// With the store gone, status still comes, soon, and says what is missing.
func TestStatusIsUsefulWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	adm := r.node(t, mesh.RoleAdmin)
	remote := as(t, r.addr.Mesh, adm)
	call(t, admin.MemberList, remote, admin.Page{})
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s := call(t, admin.ServerStatusGet, r.local(t), admin.None{})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(s.Problems) == 0 || !strings.Contains(s.Problems[0], "store") || len(s.Certificates) == 0 || s.Etcd.Revision == 0 {
		t.Errorf("status: %+v", s)
	}
	if _, err := admin.MemberList.Call(t.Context(), remote, admin.Page{}); mesh.Kind(err) != mesh.ErrUnavailable {
		t.Errorf("an administrator is told %v, want unavailable", err)
	}
	if err := r.stop(); err != nil && !strings.Contains(err.Error(), "store") {
		t.Error(err)
	}
}

func TestHealthAndReadinessAndMetrics(t *testing.T) {
	w := getWorld(t)
	call(t, admin.MemberList, w.local(t), admin.Page{})
	for path, part := range map[string]string{
		"/healthz":   "ok",
		"/readyz":    "ready",
		"/metrics?":  "meshctl_mgmt_nodes_connected",
		"/metrics??": `meshctl_mgmt_certificate_end_seconds{certificate="intermediate"}`,
		"/metrics":   `meshctl_mgmt_calls_total{code="OK",method="/meshctl.v1.Admin/MemberList"}`,
	} {
		resp, err := http.Get("http://" + w.addr.Metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), part) {
			t.Errorf("%s: %d, %v, want %q", path, resp.StatusCode, err, part)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRunServesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at Addresses
	logs := new(logBuffer)
	s := &Server{Config: testConfig(filepath.Join(t.TempDir(), "data")), Passphrase: givePassphrase, Log: logs.logger(), Up: func(a Addresses) { at = a }}
	served := false
	err := s.Run(ctx, func() {
		served = true
		cancel()
	})
	if err != nil || !served || at.Mesh == "" || at.Socket == "" {
		t.Errorf("served %v at %+v, then %v\n%s", served, at, err, logs)
	}
}
