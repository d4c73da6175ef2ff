package client

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// warningOf is what the cluster last warned of about a pod, the only word there is of
// a container that could not be made. It has "" for none: the reason stands without it.
func (s *session) warningOf(ctx context.Context, p mesh.KubePod) string {
	ctx, cancel := s.applier.limit(ctx)
	defer cancel()
	query := url.Values{"fieldSelector": {"involvedObject.uid=" + p.UID + ",type=Warning"}, "limit": {"100"}}
	body, err := s.applier.get(ctx, "/api/v1/namespaces/"+url.PathEscape(s.applier.namespace)+"/events", query, 256<<10)
	if err != nil {
		return ""
	}
	return lastWarning(body)
}

// lastWarning reads a list of events (Kubernetes API reference, "Event v1 core"). The
// time of an event is in one of two members.
func lastWarning(body []byte) string {
	var list struct {
		Items []struct {
			Reason        string `json:"reason"`
			Message       string `json:"message"`
			LastTimestamp string `json:"lastTimestamp"`
			EventTime     string `json:"eventTime"`
		} `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil {
		return ""
	}
	var text, latest string
	for _, e := range list.Items {
		if at := max(e.LastTimestamp, e.EventTime); e.Reason != "" && at >= latest {
			text, latest = e.Reason+": "+e.Message, at
		}
	}
	return printable(text, 512)
}
