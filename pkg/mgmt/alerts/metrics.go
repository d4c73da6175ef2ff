package alerts

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Collectors are the metrics of alerts and of webhooks.
func (s *Service) Collectors(h *Hooks) []prometheus.Collector {
	s.begin()
	return []prometheus.Collector{
		&gauges{service: s, desc: prometheus.NewDesc(alert.Metric, "Alerts that fire, by rule.", []string{"rule"}, nil)},
		&posts{hooks: h, desc: prometheus.NewDesc("meshctl_mgmt_webhook_posts_total", "Posts to webhooks that this server had made, by outcome.", []string{"outcome"}, nil)},
	}
}

type gauges struct {
	service *Service
	desc    *prometheus.Desc
}

func (g *gauges) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect shows every rule, also one of which no alert fires.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	firing := map[string]int{}
	for _, a := range g.service.alerts.All() {
		if a.State == mesh.AlertFiring {
			firing[a.Rule]++
		}
	}
	for _, r := range alert.Rules() {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(firing[r.Name]), r.Name)
	}
}

type posts struct {
	hooks *Hooks
	desc  *prometheus.Desc
}

func (p *posts) Describe(ch chan<- *prometheus.Desc) { ch <- p.desc }

func (p *posts) Collect(ch chan<- prometheus.Metric) {
	p.hooks.mu.Lock()
	counts := maps.Clone(p.hooks.posts)
	p.hooks.mu.Unlock()
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		ch <- prometheus.MustNewConstMetric(p.desc, prometheus.CounterValue, counts[word], word)
	}
}
