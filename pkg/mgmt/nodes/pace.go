package nodes

import (
	"maps"
	"time"

	"golang.org/x/time/rate"
)

const (
	paceEvery = 5 * time.Minute
	paceBurst = 30
)

// pace bounds how often what a node does to itself (another version, another
// reason why it cannot be reached) is written. Each such write is an audit
// record, and audit keeps so many: a node must not be able to push the others
// out. It belongs to one loop. The zero value is ready.
type pace map[string]*rate.Limiter

// wait takes a turn for node, or says how long until there is one.
func (p *pace) wait(node string, now time.Time) time.Duration {
	if *p == nil {
		*p = pace{}
	}
	l := (*p)[node]
	if l == nil {
		l = rate.NewLimiter(rate.Every(paceEvery), paceBurst)
		(*p)[node] = l
	}
	r := l.ReserveN(now, 1)
	later := r.DelayFrom(now)
	if later > 0 {
		r.CancelAt(now)
	}
	return later
}

// forget drops whom nothing is held against.
func (p pace) forget() {
	maps.DeleteFunc(p, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= paceBurst })
}
