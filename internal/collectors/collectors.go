// Package collectors registers the metrics of one part together.
package collectors

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Set is the metrics of one part.
type Set []prometheus.Collector

// Register adds all of them to r; nil takes none. Those that r refuses are
// named, and the others are there.
func (s Set) Register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, c := range s {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// Unregister takes them away again, so that the part can be started once more.
func (s Set) Unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range s {
		r.Unregister(c)
	}
}
