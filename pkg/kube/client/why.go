package client

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	logLines = 10
	maxLog   = 2 << 10
)

// lines are what a pod wrote last, or what the cluster warned of when it wrote
// nothing, so that they are asked for once.
type lines struct {
	uid      string
	restarts int
	text     string
	warning  string
	at       time.Time
}

// why says which pod keeps a rolling update from going on, and what it wrote last.
func (s *session) why(ctx context.Context, pods []mesh.KubePod, release int64, live *unstructured.Unstructured) string {
	p := worst(pods, release)
	if p == nil {
		if message, _ := conditionOf(live, "ReplicaFailure")["message"].(string); message != "" {
			return printable(message, 1024)
		}
		return "there is no pod of it that could say why"
	}
	text := fmt.Sprintf("pod %s: %s", p.Name, p.Reason)
	switch l := s.linesOf(ctx, *p); {
	case l.text != "":
		text += "\n" + l.text
	case l.warning != "":
		text += "; " + l.warning
	}
	return text
}

// linesOf has the end of a pod's log; of the container before, when that one ended.
func (s *session) linesOf(ctx context.Context, p mesh.KubePod) lines {
	l := &s.lines
	if l.uid == p.UID && l.restarts == p.Restarts && (l.text != "" || time.Since(l.at) < s.pace.logs) {
		return *l
	}
	*l = lines{uid: p.UID, restarts: p.Restarts, at: time.Now()}
	if strings.HasPrefix(p.Reason, "ended with") && p.Restarts > 0 {
		l.text = s.askLog(ctx, p.Name, true)
	}
	if l.text == "" {
		l.text = s.askLog(ctx, p.Name, false)
	}
	if l.text == "" {
		l.text = s.lastWords(p.Name)
	}
	if l.text == "" {
		l.warning = s.warningOf(ctx, p)
	}
	return *l
}

// lastWords are what the cluster itself kept of a container that ended: its node need
// not answer for them.
func (s *session) lastWords(pod string) string {
	o, _ := s.cache.get("Pod", pod)
	if o == nil {
		return ""
	}
	c := containerOf(o)
	for _, when := range []string{"state", "lastState"} {
		if words, _ := stateOf(c, when, "terminated")["message"].(string); words != "" {
			return tail(words)
		}
	}
	return ""
}

// tail is the last lines of a text, printable.
func tail(text string) string {
	text = strings.TrimSpace(printable(text, 64<<10))
	lines := strings.Split(text, "\n")
	text = strings.Join(lines[max(0, len(lines)-logLines):], "\n")
	if len(text) > maxLog {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxLog:], "")
	}
	return text
}

// askLog has "" for a log that nobody has: the reason stands without it.
func (s *session) askLog(ctx context.Context, pod string, previous bool) string {
	ctx, cancel := s.applier.limit(ctx)
	defer cancel()
	query := url.Values{"container": {kube.Container}, "tailLines": {fmt.Sprint(logLines)}, "limitBytes": {fmt.Sprint(64 << 10)}}
	if previous {
		query.Set("previous", "true")
	}
	path := "/api/v1/namespaces/" + url.PathEscape(s.applier.namespace) + "/pods/" + url.PathEscape(pod) + "/log"
	body, err := s.applier.get(ctx, path, query, 64<<10)
	if err != nil {
		return ""
	}
	return tail(string(body))
}
