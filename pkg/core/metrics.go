package core

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// metrics are what a core counts. None has a label that tells of a device.
type metrics struct {
	sessions   prometheus.Gauge
	handshakes *prometheus.CounterVec
	refused    *prometheus.CounterVec
	dials      *prometheus.CounterVec
	requests   *prometheus.CounterVec
	drops      *prometheus.CounterVec
	panics     prometheus.Counter
	register   func(...prometheus.Collector)
}

func newMetrics(reg prometheus.Registerer, t *devices) *metrics {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "meshctl_core_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		sessions:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "meshctl_core_sessions", Help: "Relay sessions that are open."}),
		handshakes: vec("handshakes_total", "TLS handshakes of peers, by result.", "result"),
		refused:    vec("refused_total", "Streams refused, by code.", "code"),
		dials:      vec("dials_total", "Destinations dialled, by result.", "result"),
		requests:   vec("requests_total", "Requests inside clients' TLS, by what they got.", "kind"),
		drops:      vec("datagrams_dropped_total", "Datagrams that were not passed on, by reason.", "reason"),
		panics:     prometheus.NewCounter(prometheus.CounterOpts{Name: "meshctl_core_panics_total", Help: "Panics that ended one client's connection and nothing else."}),
		register:   func(...prometheus.Collector) {},
	}
	if reg != nil {
		m.register = reg.MustRegister
	}
	m.register(m.sessions, m.handshakes, m.refused, m.dials, m.requests, m.drops, m.panics,
		bytesCounter("up", func() int64 { return t.totals().up }),
		bytesCounter("down", func() int64 { return t.totals().down }),
		gauge("streams", "Streams that are open.", func() int { _, n := t.count(); return n }),
		gauge("devices", "Devices in the table.", func() int { n, _ := t.count(); return n }))
	return m
}

// watch shows what clients have open to destinations.
func (m *metrics) watch(tunnels, flows *quota) {
	m.register(gauge("tunnels", "Connections to destinations that are open.", tunnels.count),
		gauge("flows", "Flows of datagrams that are open.", flows.count))
}

func gauge(name, help string, value func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "meshctl_core_" + name, Help: help},
		func() float64 { return float64(value()) })
}

func bytesCounter(direction string, value func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "meshctl_core_bytes_total", Help: "Bytes of clients, by direction.",
		ConstLabels: prometheus.Labels{"direction": direction},
	}, func() float64 { return float64(value()) })
}

// dialled counts one attempt to reach a destination.
func (m *metrics) dialled(err error) {
	result := "unreachable"
	switch {
	case err == nil:
		result = "ok"
	case errors.Is(err, mesh.ErrDenied):
		result = "denied"
	case isTimeout(err):
		result = "timeout"
	}
	m.dials.WithLabelValues(result).Inc()
}

// dropped counts one datagram.
func (m *metrics) dropped(reason string) { m.drops.WithLabelValues(reason).Inc() }
