package kubetest

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// event is a warning about a pod.
type event struct{ uid, reason, message, at string }

// Warn has the cluster warn of a pod at a time as JSON has it.
func (s *Server) Warn(uid, reason, message, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event{uid, reason, message, at})
}

func isEvents(path string) bool {
	return strings.HasPrefix(path, "/api/v1/namespaces/") && strings.HasSuffix(path, "/events")
}

// serveEvents obeys the field selector.
func (s *Server) serveEvents(w http.ResponseWriter, req *http.Request) {
	chosen, err := fields.ParseSelector(req.URL.Query().Get("fieldSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	items := []any{}
	for _, e := range s.events {
		if chosen.Matches(fields.Set{"involvedObject.uid": e.uid, "type": "Warning"}) {
			items = append(items, map[string]any{"type": "Warning", "reason": e.reason, "message": e.message, "lastTimestamp": e.at})
		}
	}
	s.mu.Unlock()
	answer(w, map[string]any{"apiVersion": "v1", "kind": "EventList", "items": items})
}
