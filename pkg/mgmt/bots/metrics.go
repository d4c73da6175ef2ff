package bots

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var (
	descUp      = prometheus.NewDesc("meshctl_bot_up", "1 when the bot works; there is none on a server that does not have it.", nil, nil)
	descState   = prometheus.NewDesc("meshctl_bot_state", "1 for how the bot gets on with Telegram.", []string{"state"}, nil)
	descUpdates = prometheus.NewDesc("meshctl_bot_updates_total", "Updates of Telegram since this server has the bot, by what became of them.", []string{"result"}, nil)
	descSent    = prometheus.NewDesc("meshctl_bot_messages_total", "Messages since this server has the bot.", nil, nil)
	descWaiting = prometheus.NewDesc("meshctl_notices_waiting", "Notices that wait to be sent, to chats and webhooks.", nil, nil)
)

// Collectors are the metrics.
func (s *Service) Collectors() []prometheus.Collector {
	s.begin()
	return []prometheus.Collector{s.dropped, state{s}}
}

// state are gauges of the term of now; none on a server that does not lead.
type state struct{ s *Service }

// Describe names the metrics.
func (state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descState, descUpdates, descSent, descWaiting} {
		to <- d
	}
}

// Collect reads them.
func (c state) Collect(to chan<- prometheus.Metric) {
	c.s.mu.Lock()
	t := c.s.term
	var st mesh.BotState
	if t != nil {
		st = t.state
	}
	c.s.mu.Unlock()
	if t == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(descWaiting, float64(len(t.outbox.All())))
	if c.s.Connection.Token == "" || st.State == "" {
		return
	}
	up := 0.0
	if st.State == mesh.BotWorking {
		up = 1
	}
	gauge(descUp, up)
	gauge(descState, 1, string(st.State))
	count(descUpdates, st.Updates, "handled")
	count(descUpdates, st.Ignored, "ignored")
	count(descSent, st.Sent)
}
