package backups

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// metrics are what this server counts of backups while it leads.
type metrics struct {
	rounds *prometheus.CounterVec
	drafts prometheus.Histogram
}

func (s *Service) metric() *metrics {
	s.once.Do(func() {
		s.metrics = &metrics{
			rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "meshctl_backup_pushes_total",
				Help: "Rounds of backups, by remote and result."}, []string{"remote", "result"}),
			drafts: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "meshctl_backup_draft_seconds",
				Help: "How long it took to draw up a backup.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 11)}),
		}
	})
	return s.metrics
}

func (m *metrics) ended(out chores.BackupOutcome) {
	for _, r := range out.Remotes {
		result := r.Failure
		if result == "" {
			result = out.Failure
		}
		if result == "" {
			result = "done"
		}
		m.rounds.WithLabelValues(r.Name, string(result)).Inc()
	}
}

// Collectors are the metrics. Ages are of what the remotes hold, and there are
// none on a server that does not lead.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metric().rounds, s.metric().drafts, ages{s}}
}

var (
	pushedAge = prometheus.NewDesc("meshctl_backup_pushed_age_seconds", "Time since a remote was seen to hold the newest backup.", []string{"remote"}, nil)
	failures  = prometheus.NewDesc("meshctl_backup_failures", "Failures in a row at a remote.", []string{"remote"}, nil)
	proofAge  = prometheus.NewDesc("meshctl_backup_proof_age_seconds", "Time since the last proof that a backup restores.", nil, nil)
	proofGood = prometheus.NewDesc("meshctl_backup_proof_good", "1 when the last proof succeeded.", nil, nil)
	proofTook = prometheus.NewDesc("meshctl_backup_proof_seconds", "How long the last proof took.", nil, nil)
	proofSize = prometheus.NewDesc("meshctl_backup_proof_objects", "Objects that the last proof compared.", nil, nil)
	copyAge   = prometheus.NewDesc("meshctl_backup_copy_age_seconds", "Time since the last full copy of etcd.", nil, nil)
)

// ages are gauges of the state of now.
type ages struct{ s *Service }

// Describe is that of prometheus.Collector.
func (a ages) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pushedAge, failures, proofAge, proofGood, proofTook, proofSize, copyAge} {
		out <- d
	}
}

// Collect is that of prometheus.Collector.
func (a ages) Collect(out chan<- prometheus.Metric) {
	st, leads := a.s.State()
	if !leads {
		return
	}
	now := a.s.now()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	age := func(d *prometheus.Desc, at time.Time, labels ...string) {
		if !at.IsZero() {
			gauge(d, now.Sub(at).Seconds(), labels...)
		}
	}
	for _, r := range st.Remotes {
		age(pushedAge, r.Pushed, r.Name)
		gauge(failures, float64(r.Failures), r.Name)
	}
	age(copyAge, st.Copy.At)
	if st.Proof.At.IsZero() {
		return
	}
	age(proofAge, st.Proof.At)
	good := 0.0
	if st.Proof.Problem == "" {
		good = 1
	}
	gauge(proofGood, good)
	gauge(proofTook, time.Duration(st.Proof.Took).Seconds())
	gauge(proofSize, float64(st.Proof.Objects))
}

// State is how backups go, and whether it is this server that makes them.
func (s *Service) State() (mesh.BackupState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return mesh.BackupState{}, false
	}
	st := s.term.state
	st.Remotes = slices.Clone(st.Remotes)
	return st, true
}
