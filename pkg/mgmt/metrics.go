package mgmt

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/meshctl/meshctl/pkg/admin"
)

// metrics are what the server counts. Names of methods come from the table, so
// that a stranger cannot make series.
type metrics struct {
	calls  *prometheus.CounterVec
	turned *prometheus.CounterVec
	panics prometheus.Counter
	tokens *prometheus.CounterVec
}

// newMetrics registers them, or takes those that are registered: what was
// counted before there was a mesh goes on.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	var m metrics
	counter := func(name, help string, label ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label)
	}
	return &m, errors.Join(
		keep(r, &m.calls, counter("meshctl_mgmt_calls_total", "Calls ended, by method and gRPC code.", "method", "code")),
		keep(r, &m.turned, counter("meshctl_mgmt_connections_refused_total", "Connections refused, by reason.", "reason")),
		keep(r, &m.panics, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "meshctl_mgmt_panics_total", Help: "Calls and handshakes that ended in a panic."})),
		keep(r, &m.tokens, counter("meshctl_mgmt_enrollments_total", "Enrollments, by outcome.", "outcome")),
	)
}

// keep sets to to c, or to what is registered in its place.
func keep[C prometheus.Collector](r prometheus.Registerer, to *C, c C) error {
	*to = c
	err := r.Register(c)
	if have, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		*to, err = have.ExistingCollector.(C), nil // the same name and labels are the same type
	}
	return err
}

func (m *metrics) called(t access, method string, code codes.Code) {
	if _, ok := t[method]; !ok {
		method = "unknown"
	}
	m.calls.WithLabelValues(method, code.String()).Inc()
}

// gauges are read when somebody asks, so they come last, when all is there.
func (r *runtime) gauges() []prometheus.Collector {
	etcd := func(read func(admin.EtcdStatus) int64) func() float64 {
		return func() float64 {
			s, err := r.etcd.status()
			if err != nil {
				return 0
			}
			return float64(read(s))
		}
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	out := []prometheus.Collector{
		gauge("meshctl_mgmt_nodes_connected", "Nodes whose stream is on this server.", func() float64 { return float64(len(r.nodes.Connected())) }),
		gauge("meshctl_mgmt_store_bytes", "Size of etcd's database.", etcd(func(s admin.EtcdStatus) int64 { return s.Bytes })),
		gauge("meshctl_mgmt_store_quota_bytes", "Size at which etcd refuses changes.", etcd(func(s admin.EtcdStatus) int64 { return s.Quota })),
		gauge("meshctl_mgmt_store_alarms", "Alarms of etcd that stand.", etcd(func(s admin.EtcdStatus) int64 { return int64(len(s.Alarms)) })),
	}
	out = append(out, r.foreman.Collectors()...)
	out = append(out, r.backups.Collectors()...)
	out = append(out, r.bots.Collectors()...)
	out = append(out, r.alerts.Collectors(r.hooks)...)
	out = append(out, r.kubes.Collectors()...)
	for i, c := range r.certificates() {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "meshctl_mgmt_certificate_end_seconds", Help: "End of a certificate of this server, in Unix time.",
			ConstLabels: prometheus.Labels{"certificate": c.What},
		}, func() float64 { return float64(r.certificates()[i].Ends.Unix()) }))
	}
	return out
}
