package subs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/collectors"
)

// metrics are what the service counts: never by device, member or secret.
type metrics struct {
	answers *prometheus.CounterVec
	refused *prometheus.CounterVec
	took    prometheus.Histogram
	panics  prometheus.Counter
	gauges  []prometheus.Collector
}

func newMetrics(s *Service) *metrics {
	return &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meshctl_subscription_answers_total", Help: "Answers of the subscription service, by outcome and format."}, []string{"outcome", "format"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meshctl_subscription_refusals_total", Help: "Clients that were not let in, by the code that the entry was told."}, []string{"code"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "meshctl_subscription_answer_seconds", Help: "Time from a request to its answer.", Buckets: []float64{.0001, .0005, .001, .005, .025, .1, .5, 1}}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "meshctl_subscription_panics_total", Help: "Requests that ended in a panic."}),
		gauges: []prometheus.Collector{
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "meshctl_subscription_clients", Help: "Clients of the subscription service that are connected."},
				func() float64 { return float64(s.door.open()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "meshctl_subscription_state_age_seconds", Help: "How old what clients are told is."},
				func() float64 { asOf, _ := s.pulse.age(); return s.now().Sub(asOf).Seconds() }),
		},
	}
}

func (m *metrics) all() collectors.Set {
	return append(collectors.Set{m.answers, m.refused, m.took, m.panics}, m.gauges...)
}
