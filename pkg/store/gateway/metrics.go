package gateway

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/mesh"
)

type metrics struct {
	lookups  *prometheus.CounterVec // by result: found, not_found, denied, stale, unavailable, invalid
	took     prometheus.Histogram
	noLeader prometheus.Counter
	breaker  prometheus.GaugeFunc
}

func newMetrics(b *breaker) *metrics {
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
		breaker: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: ns, Subsystem: sub, Name: "servers_gone",
			Help: "1 while no management server answers.",
		}, func() float64 {
			if b.open() {
				return 1
			}
			return 0
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.lookups, m.took, m.noLeader, m.breaker}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range m.all() {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all() {
		r.Unregister(c)
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
