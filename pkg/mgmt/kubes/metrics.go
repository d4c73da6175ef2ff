package kubes

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Collectors are the metrics of clusters, as the holder of the office has written
// them; every server shows the same.
func (s *Service) Collectors() []prometheus.Collector {
	s.begin()
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"cluster"}, labels...), nil)
	}
	return []prometheus.Collector{&gauges{
		service:   s,
		up:        desc("meshctl_mgmt_kube_up", "Whether the API of a cluster answers well."),
		pods:      desc("meshctl_mgmt_kube_pods", "Pods of entries, by what they are.", "state"),
		conflicts: desc("meshctl_mgmt_kube_conflicts", "Fields that somebody else keeps otherwise."),
		addresses: desc("meshctl_mgmt_kube_addresses", "Addresses of entries, by whether they lead to them.", "state"),
		parked:    desc("meshctl_mgmt_kube_parked", "The release that failed and is parked; 0: none."),
	}}
}

type gauges struct {
	service                                *Service
	up, pods, conflicts, addresses, parked *prometheus.Desc
}

func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.up, g.pods, g.conflicts, g.addresses, g.parked} {
		ch <- d
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	states := g.service.states.All()
	for id, c := range g.service.kubes.All() {
		st := states[id]
		put := func(d *prometheus.Desc, n int, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{c.Name}, labels...)...)
		}
		put(g.up, number(st.Contact == ""))
		put(g.conflicts, len(st.Conflicts))
		put(g.parked, int(st.Parked))
		pods, up := st.Counted(), upOfState(st)
		put(g.pods, st.Rollout.Desired, "desired")
		put(g.pods, pods.Ready, "ready")
		put(g.pods, pods.Ending, "draining")
		put(g.addresses, up, "up")
		put(g.addresses, len(st.Addresses)-up, "down")
	}
}

func upOfState(st mesh.KubeState) (up int) {
	for _, a := range st.Addresses {
		up += number(a.Up)
	}
	return up
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
