package nodes

import (
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// probingNames is how many names that lead nowhere somebody may ask for at one
	// entry within probingTime before that is told: a device whose name has ended
	// asks for one or two.
	probingNames = 50
	probingTime  = 10 * time.Minute
)

// probing adds up lookups of names that lead nowhere.
type probing struct {
	since         time.Time
	misses, names int64
}

// add takes a report and says whether it is time to tell; then it begins anew.
func (p *probing) add(misses, names int64, now time.Time) (told probing, tell bool) {
	misses, names = max(0, misses), max(0, names)
	if misses == 0 {
		return probing{}, false
	}
	if now.Sub(p.since) > probingTime {
		*p = probing{since: now}
	}
	p.misses += misses
	p.names += names
	if p.names < probingNames {
		return probing{}, false
	}
	told, *p = *p, probing{}
	return told, true
}

// missed notes names that led nowhere.
func (s *Service) missed(se *session, r *controlpb.Report) {
	now := time.Now()
	se.mu.Lock()
	p, tell := se.probing.add(r.GetMisses(), r.GetMissedNames(), now)
	se.mu.Unlock()
	if !tell {
		return
	}
	s.tell(mesh.Event{Type: mesh.EventRouteProbing, Severity: mesh.Warning, Object: se.node,
		Cause:  fmt.Sprintf("clients asked %d times for %d names that lead nowhere, within %v", p.misses, p.names, max(time.Minute, now.Sub(p.since).Round(time.Minute))),
		Advice: "somebody may be guessing names of devices, which are too long for that; look at where the connections come from (log.level debug at the entry), and have the network in front of it limit them"})
}
