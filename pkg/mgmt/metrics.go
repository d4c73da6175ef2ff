package mgmt

import (
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

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meshctl_mgmt_calls_total", Help: "Calls ended, by method and gRPC code."}, []string{"method", "code"}),
		turned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meshctl_mgmt_connections_refused_total", Help: "Connections refused, by reason."}, []string{"reason"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "meshctl_mgmt_panics_total", Help: "Calls that ended in a panic."}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meshctl_mgmt_enrollments_total", Help: "Enrollments, by outcome."}, []string{"outcome"}),
	}
	for _, c := range []prometheus.Collector{m.calls, m.turned, m.panics, m.tokens} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
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
	for i, c := range r.certificates() {
		out = append(out, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "meshctl_mgmt_certificate_end_seconds", Help: "End of a certificate of this server, in Unix time.",
			ConstLabels: prometheus.Labels{"certificate": c.What},
		}, func() float64 { return float64(r.certificates()[i].Ends.Unix()) }))
	}
	return out
}
