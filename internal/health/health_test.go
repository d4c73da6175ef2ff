package health_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/internal/health"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachPathSaysWhatItIsFor(t *testing.T) {
	var ready atomic.Bool
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "meshctl_test"}, func() float64 { return 7 }))
	s := &health.Server{
		Ready: func(context.Context) error {
			if !ready.Load() {
				return errors.New("still starting")
			}
			return nil
		},
		Gather: reg,
		Log:    slog.New(slog.DiscardHandler),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()

	base := "http://" + ln.Addr().String()
	check(t, base+"/healthz", 200, "ok")
	check(t, base+"/readyz", 503, "still starting")
	ready.Store(true)
	check(t, base+"/readyz", 200, "ready")
	check(t, base+"/metrics", 200, "meshctl_test 7")
	check(t, base+"/debug/pprof/", 404, "")

	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after its context ended: %v", err)
	}
}

func check(t *testing.T, url string, code int, part string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code || !strings.Contains(string(body), part) {
		t.Errorf("GET %s: %d %q, want %d and %q", url, resp.StatusCode, body, code, part)
	}
}
