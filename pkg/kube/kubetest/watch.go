package kubetest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// bookmarks come so often, so that a test need not wait.
const bookmarks = 200 * time.Millisecond

func (s *Server) serveWatch(w http.ResponseWriter, req *http.Request, to target) {
	q := req.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	from, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	end := time.After(time.Duration(max(seconds, 1)) * time.Second)
	tick := time.NewTicker(bookmarks)
	defer tick.Stop()
	out := &stream{json.NewEncoder(w), http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/json")
	out.flush.Flush()
	for {
		news, more, err := s.since(from)
		if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
			status := s.ErrStatus
			status.Kind, status.APIVersion = "Status", "v1"
			out.send("ERROR", status)
			return
		}
		for _, c := range news {
			from = c.revision
			if c.key.kind == to.resource.kind && c.key.namespace == to.namespace {
				out.tell(c, sel)
			}
		}
		select {
		case <-req.Context().Done():
			return
		case <-end:
			return
		case <-more:
		case <-tick.C:
			mark := &unstructured.Unstructured{}
			mark.SetGroupVersionKind(to.resource.gvk())
			mark.SetResourceVersion(strconv.FormatInt(from, 10))
			out.send("BOOKMARK", mark.Object)
		}
	}
}

type stream struct {
	enc   *json.Encoder
	flush *http.ResponseController
}

func (s *stream) send(kind string, object any) {
	s.enc.Encode(map[string]any{"type": kind, "object": object})
	s.flush.Flush()
}

// tell sends a change as whoever selects by labels sees it.
func (s *stream) tell(c change, sel labels.Selector) {
	matches := func(o *unstructured.Unstructured) bool { return o != nil && sel.Matches(labels.Set(o.GetLabels())) }
	switch was, is := matches(c.was), matches(c.is); {
	case is && was:
		s.send("MODIFIED", c.is.Object)
	case is:
		s.send("ADDED", c.is.Object)
	case was:
		gone := c.was.DeepCopy()
		gone.SetResourceVersion(strconv.FormatInt(c.revision, 10))
		s.send("DELETED", gone.Object)
	}
}
