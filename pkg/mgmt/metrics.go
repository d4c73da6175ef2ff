package mgmt

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
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
