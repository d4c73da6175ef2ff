package collectors

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAPartCanBeStartedAgain(t *testing.T) {
	gauge := func(name string) prometheus.Collector { return prometheus.NewGauge(prometheus.GaugeOpts{Name: name}) }
	r := prometheus.NewRegistry()
	s := Set{gauge("one"), gauge("two")}
	for range 2 {
		if err := s.Register(r); err != nil {
			t.Fatal(err)
		}
		s.Unregister(r)
	}
	if err := (Set{gauge("one"), gauge("one"), gauge("two")}).Register(r); err == nil {
		t.Error("twins are no error")
	}
	if got, err := r.Gather(); err != nil || len(got) != 2 {
		t.Errorf("%d metrics beside a twin: %v", len(got), err)
	}
	if err := s.Register(nil); err != nil {
		t.Error(err)
	}
	s.Unregister(nil)
}
