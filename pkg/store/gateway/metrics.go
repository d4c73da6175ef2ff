package gateway

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/collectors"

	"github.com/meshctl/meshctl/pkg/mesh"
)

type metrics struct {
	lookups  *prometheus.CounterVec // by result: found, not_found, denied, stale, unavailable, invalid
	took     prometheus.Histogram
	noLeader prometheus.Counter
	gone     prometheus.GaugeFunc
	answers  *prometheus.CounterVec // by server and result: answered, failed, overtaken
	hedges   *prometheus.CounterVec // by server
	servers  *standing
}

func newMetrics(s *servers) *metrics {
	const ns, sub = "meshctl", "gateway"
	return &metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "lookups_total",
			Help: "Route lookups by result; stale is a last answer given again because no server answered.",
		}, []string{"result"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Subsystem: sub, Name: "lookup_seconds",
			Help:    "Duration of lookups that asked a server.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
		noLeader: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "answers_without_leader_total",
			Help: "Answers from a server whose etcd had no leader.",
		}),
		gone: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "servers_gone",
			Help: "1 while no management server answers.",
		}, func() float64 {
			if s.gone() {
				return 1
			}
			return 0
		}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "answers_total",
			Help: "Questions to each management server; overtaken ones were answered sooner by a server that was asked later.",
		}, []string{"server", "result"}),
		hedges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Subsystem: sub, Name: "hedges_total",
			Help: "Questions put to a server because another took longer than it usually does.",
		}, []string{"server"}),
		servers: &standing{
			servers: s,
			up: prometheus.NewDesc(ns+"_"+sub+"_server_up",
				"0 while this server is asked nothing, because it did not answer.", []string{"server"}, nil),
			usual: prometheus.NewDesc(ns+"_"+sub+"_server_usual_seconds",
				"Within this time the server gave 95 % of its last answers.", []string{"server"}, nil),
		},
	}
}

func (m *metrics) all() collectors.Set {
	return collectors.Set{m.lookups, m.took, m.noLeader, m.gone, m.answers, m.hedges, m.servers}
}

// forget drops the series of a server that is no longer one.
func (m *metrics) forget(addr string) {
	m.answers.DeletePartialMatch(prometheus.Labels{"server": addr})
	m.hedges.DeleteLabelValues(addr)
}

// standing collects how each server is doing now.
type standing struct {
	servers   *servers
	up, usual *prometheus.Desc
}

func (s *standing) Describe(out chan<- *prometheus.Desc) { out <- s.up; out <- s.usual }

func (s *standing) Collect(out chan<- prometheus.Metric) {
	for _, x := range s.servers.all() {
		up := 1.0
		if x.gone() {
			up = 0
		}
		out <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, up, x.addr)
		out <- prometheus.MustNewConstMetric(s.usual, prometheus.GaugeValue, x.patience(time.Hour).Seconds(), x.addr)
	}
}

func (m *metrics) count(err error) {
	result := "found"
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		result = "not_found"
	case errors.Is(err, mesh.ErrDenied):
		result = "denied"
	case errors.Is(err, mesh.ErrUnavailable):
		result = "unavailable"
	case err != nil:
		result = "invalid"
	}
	m.lookups.WithLabelValues(result).Inc()
}
