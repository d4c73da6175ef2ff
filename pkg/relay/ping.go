package relay

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

const (
	restAfter   = 30 * time.Second // a window that sees no grant for so long goes back to its first size
	orphanAfter = time.Minute      // how long a closed stream waits for the peer's FIN
)

// pingLoop finds out whether the peer lives. Any frame from it will do, so that an answer stuck
// behind other frames on a slow connection is not taken for a death.
func (s *Session) pingLoop() {
	timer := time.NewTimer(s.cfg.PingTimeout)
	defer timer.Stop()
	for {
		frames := s.ping()
		if !s.sleep(timer, s.cfg.PingTimeout) {
			return
		}
		if s.frames.Load() == frames {
			s.lose(fmt.Errorf("no answer for %v: %w", s.cfg.PingTimeout, os.ErrDeadlineExceeded))
			return
		}
		s.tidy(time.Now())
		if !s.sleep(timer, s.cfg.PingEvery-s.cfg.PingTimeout) {
			return
		}
	}
}

// sleep waits for d. It returns false if the session ends first.
func (s *Session) sleep(timer *time.Timer, d time.Duration) bool {
	timer.Reset(max(d, 0))
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// ping sends a ping and returns the number of frames that were read before it.
func (s *Session) ping() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings++
	s.pinged = time.Now()
	s.controlLocked(typePing, 0, binary.BigEndian.AppendUint64(nil, s.pings)...)
	return s.frames.Load()
}

// tidy says what has happened since the last time, and looks after streams that rest: it takes back
// what their windows grew by, and resets those that their user closed long ago and whose peer never
// said that it was done.
func (s *Session) tidy(now time.Time) {
	if n := s.evicted.Swap(0); n > 0 {
		s.cfg.Log.Warn("relay streams cut for memory", "count", n)
	}
	s.mu.Lock()
	streams := slices.Collect(maps.Keys(s.all))
	var orphans []*Stream
	for _, st := range streams {
		if st.released && now.Sub(st.closedAt) > orphanAfter {
			orphans = append(orphans, st)
		}
	}
	s.mu.Unlock()
	for _, st := range streams {
		st.recv.rest(now.Add(-restAfter), &s.budget)
	}
	for _, st := range orphans {
		st.cut(CodeTimeout)
	}
}
