package entry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/collectors"
)

type metrics struct {
	ended        *prometheus.CounterVec // by reason
	refusals     *prometheus.CounterVec // by code
	bytes        *prometheus.CounterVec // by direction
	setup        prometheus.Histogram
	acceptErrors prometheus.Counter
	open, hellos prometheus.GaugeFunc
}

func newMetrics(s *Server) *metrics {
	const ns, sub = "meshctl", "entry"
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string, f func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, f)
	}
	return &metrics{
		ended:    vec("connections_ended_total", "Client connections that ended, by reason.", "reason"),
		refusals: vec("refusals_total", "Refusals by cores, by code.", "code"),
		bytes:    vec("bytes_total", "Bytes of connections that ended; up is from the client.", "direction"),
		setup: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "setup_seconds",
			Help:    "Time from accepting a client to a core's acceptance.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "accept_errors_total", Help: "Failed attempts to accept.",
		}),
		open:   gauge("connections_open", "Client connections that are open.", func() float64 { return float64(s.open.Load()) }),
		hellos: gauge("hellos_pending", "Client connections whose hello is not complete.", func() float64 { return float64(s.hellos.len()) }),
	}
}

func (m *metrics) end(f *flow, reason Reason) {
	m.ended.WithLabelValues(string(reason)).Inc()
	m.bytes.WithLabelValues("up").Add(float64(f.up))
	m.bytes.WithLabelValues("down").Add(float64(f.down))
}

func (m *metrics) all() collectors.Set {
	return collectors.Set{m.ended, m.refusals, m.bytes, m.setup, m.acceptErrors, m.open, m.hellos}
}
