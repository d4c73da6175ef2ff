// Package health serves /healthz, /readyz and /metrics on a private listener.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers whoever reaches it: it listens on a private address, and says
// nothing secret.
//
//	/healthz  200 as long as the process serves at all
//	/readyz   200 when Ready returns nil, otherwise 503 and why
//	/metrics  what Gather holds, in the format of Prometheus
type Server struct {
	Ready  func(context.Context) error // nil: always ready
	Gather prometheus.Gatherer         // nil: no metrics
	Log    *slog.Logger
}

// Serve answers on ln until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	h := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("health: serve on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := h.Shutdown(grace); err != nil {
		h.Close() // a scraper that hangs does not hold us up
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("health: serve on %s: %w", ln.Addr(), err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.Gather != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.Gather, promhttp.HandlerOpts{}))
	}
	return mux
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ready")
}
