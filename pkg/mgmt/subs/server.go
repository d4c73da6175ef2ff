package subs

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// What a client may take before its request is complete, and until its answer is.
const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	answerTime  = 30 * time.Second
	idleTime    = 30 * time.Second
	headerBytes = 16 << 10
	h2Streams   = 16
)

// server is the HTTP server for clients. It has TLS of its own.
func (s *Service) server() *http.Server {
	return &http.Server{
		Handler:                      s.guarded(http.HandlerFunc(s.answer)),
		TLSConfig:                    s.tlsConfig(),
		ReadHeaderTimeout:            cmp.Or(s.headerTime, headerTime),
		ReadTimeout:                  requestTime,
		WriteTimeout:                 answerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               headerBytes,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: h2Streams, MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10},
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// guarded ends one request that panics, and nothing else. The request is not
// logged: its path is a secret.
func (s *Service) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		defer func() {
			s.metrics.took.Observe(time.Since(began).Seconds())
			p := recover()
			if p == nil {
				return
			}
			s.metrics.panics.Inc()
			s.Log.Error("answer panicked", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			plain(w, http.StatusInternalServerError)
		}()
		h.ServeHTTP(w, r)
	})
}

// plain answers with nothing but the status, the same to everybody, and headers
// as pairs.
func plain(w http.ResponseWriter, status int, headers ...string) {
	h := w.Header()
	clear(h)
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := fmt.Fprintln(w, http.StatusText(status)); err != nil {
		return // the client is gone
	}
}
