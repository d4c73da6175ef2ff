package entry

import (
	"sync/atomic"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Settings are what management tells entries. The zero value knows nothing
// yet, and then no name is served.
type Settings struct{ current atomic.Pointer[settings] }

type settings struct {
	suffixes map[string]struct{}
	staleFor time.Duration
	drain    bool
}

// Apply puts the settings in force: the suffixes that are asked for at all, how
// long a last answer may be used when no server answers, and whether the entry
// asks its balancer to send nobody.
func (s *Settings) Apply(suffixes []mesh.ServerName, staleFor time.Duration, drain bool) {
	next := &settings{suffixes: make(map[string]struct{}, len(suffixes)), staleFor: staleFor, drain: drain}
	for _, x := range suffixes {
		next.suffixes[string(x)] = struct{}{}
	}
	s.current.Store(next)
}

// startDrain changes nothing else.
func (s *Settings) startDrain() {
	for {
		old := s.current.Load()
		next := settings{}
		if old != nil {
			next = *old
		}
		next.drain = true
		if s.current.CompareAndSwap(old, &next) {
			return
		}
	}
}

// StaleFor is how long a last answer may be used; gateway.Config takes it.
func (s *Settings) StaleFor() time.Duration {
	if c := s.current.Load(); c != nil {
		return c.staleFor
	}
	return 0
}

// known says whether any settings have come.
func (s *Settings) known() bool {
	c := s.current.Load()
	return c != nil && c.suffixes != nil
}

func (s *Settings) drain() bool {
	c := s.current.Load()
	return c != nil && c.drain
}

// serves says whether name is one label below a suffix of the mesh, or is among
// the suffixes itself, as the name of the subscription service is.
func (s *Settings) serves(name mesh.ServerName) bool {
	c := s.current.Load()
	if c == nil {
		return false
	}
	_, suffix, _ := cutLabel(name)
	_, below := c.suffixes[suffix]
	_, itself := c.suffixes[string(name)]
	return below || itself
}
