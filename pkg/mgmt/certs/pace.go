package certs

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/meshctl/meshctl/pkg/acme"
)

// Pace is how soon after failures an order is made again. The time doubles from
// First up to Ours where the authority was asked for nothing that it counts, and
// up to Most otherwise. Zero fields have the defaults.
type Pace struct {
	First time.Duration // 1 min
	Ours  time.Duration // 15 min
	Most  time.Duration // 6 h
	Look  time.Duration // between two looks at what there is to do; 5 s
	Watch time.Duration // between two looks at what ends; 1 h
}

func (p Pace) withDefaults() Pace {
	return Pace{
		First: cmp.Or(p.First, time.Minute), Ours: cmp.Or(p.Ours, 15*time.Minute), Most: cmp.Or(p.Most, 6*time.Hour),
		Look: cmp.Or(p.Look, 5*time.Second), Watch: cmp.Or(p.Watch, time.Hour),
	}
}

// after is how long to wait after that many failures in a row, of which the last
// was f; wanted is what the authority asks for.
func (p Pace) after(failures int, f acme.Failure, wanted time.Duration) time.Duration {
	most := p.Most
	if f.Ours() {
		most = p.Ours
	}
	d := most
	if n := failures - 1; n < 20 {
		d = min(most, p.First<<n)
	}
	d = d*9/10 + rand.N(d/5+1) // servers and cells do not come at one moment
	return max(d, min(wanted, 7*24*time.Hour))
}
