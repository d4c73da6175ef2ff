package chores

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Collectors are the metrics of the child and its ping; none when there can be no
// job.
func (f *Foreman) Collectors() []prometheus.Collector {
	if !f.Configured() {
		return nil
	}
	gauge := func(name, help string, read func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(f.Status()) })
	}
	out := []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "meshctl_mgmt_aux_restarts_total", Help: "How often the child process was started again."},
			func() float64 { return float64(f.Status().Restarts) }),
		gauge("meshctl_mgmt_aux_up", "Whether the child process runs.", func(s Status) float64 { return number(s.PID != 0) }),
	}
	if f.Ping.URL == "" {
		return out
	}
	out = append(out,
		gauge("meshctl_mgmt_ping_leader", "Whether this server does the dead-man ping.", func(s Status) float64 { return number(s.Leads) }),
		gauge("meshctl_mgmt_ping_last_success_seconds", "When this server's last dead-man ping arrived, in Unix time; 0: none did.", func(s Status) float64 {
			if s.Ping.LastSuccess.IsZero() {
				return 0
			}
			return float64(s.Ping.LastSuccess.Unix())
		}),
	)
	for _, word := range outcomes() {
		out = append(out, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "meshctl_mgmt_pings_total", Help: "Dead-man pings of this server, by outcome.",
			ConstLabels: prometheus.Labels{"outcome": word},
		}, func() float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return float64(f.pinged[word])
		}))
	}
	return out
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
