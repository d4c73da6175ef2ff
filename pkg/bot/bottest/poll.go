package bottest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const conflict = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"

// getUpdates hands out updates from the offset on, and forgets those before it. A
// poll ends the one that is open.
func (s *Server) getUpdates(r *http.Request, p params) (any, *apiError) {
	s.mu.Lock()
	if s.webhook {
		s.mu.Unlock()
		return nil, &apiError{code: http.StatusConflict, text: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
	}
	if s.poll != nil {
		close(s.poll)
	}
	mine := make(chan struct{})
	s.poll = mine
	s.acknowledge(p["offset"])
	s.mu.Unlock()
	defer s.hangUp(mine)
	seconds, _ := strconv.Atoi(p["timeout"])
	late := time.After(time.Duration(min(seconds, 50)) * time.Second)
	for {
		s.mu.Lock()
		found, changed := s.pending(p), s.changed
		s.mu.Unlock()
		if len(found) > 0 || seconds <= 0 {
			return found, nil
		}
		select {
		case <-changed:
		case <-late:
			return found, nil
		case <-mine:
			return nil, &apiError{code: http.StatusConflict, text: conflict}
		case <-r.Context().Done():
			return found, nil
		}
	}
}

func (s *Server) hangUp(mine chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poll == mine {
		s.poll = nil
	}
}

// acknowledge forgets updates before the offset. Callers hold s.mu.
func (s *Server) acknowledge(text string) {
	offset, err := strconv.Atoi(text)
	if err != nil || offset <= 0 {
		return
	}
	s.updates = slices.DeleteFunc(s.updates, func(u update) bool { return u.id < offset })
	s.offset = max(s.offset, offset)
	s.change()
}

// pending are the updates that a poll gets. Callers hold s.mu.
func (s *Server) pending(p params) []map[string]any {
	limit, err := strconv.Atoi(p["limit"])
	if err != nil || limit < 1 || limit > 100 {
		limit = 100
	}
	var allowed []string
	_ = json.Unmarshal([]byte(p["allowed_updates"]), &allowed) // none: all kinds
	out := []map[string]any{}
	for _, u := range s.updates {
		if len(allowed) > 0 && !slices.Contains(allowed, u.kind) {
			continue
		}
		if len(out) == limit {
			break
		}
		out = append(out, map[string]any{"update_id": u.id, u.kind: u.body})
	}
	return out
}

// Polling says whether a bot polls now.
func (s *Server) Polling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.poll != nil
}
