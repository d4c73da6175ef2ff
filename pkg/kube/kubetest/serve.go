package kubetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is what a path names.
type target struct {
	resource  resource
	namespace string
	name      string
	sub       string
}

// ServeHTTP is the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil && before(w, req) {
		return
	}
	if req.URL.Path == "/version" {
		answer(w, map[string]string{"gitVersion": Version})
		return
	}
	if !s.knows(req) {
		refuse(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	switch {
	case strings.HasSuffix(req.URL.Path, "/tokenreviews"):
		s.tokenReview(w, req)
		return
	case strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews"):
		s.accessReview(w, req)
		return
	case isEvents(req.URL.Path):
		s.serveEvents(w, req)
		return
	}
	if name, ok := strings.CutPrefix(req.URL.Path, "/api/v1/namespaces/"); ok && !strings.Contains(name, "/") {
		s.serveNamespace(w, name)
		return
	}
	to, ok := parse(req.URL.Path)
	if !ok {
		refuse(w, apierrors.NewNotFound(schema.GroupResource{}, req.URL.Path))
		return
	}
	s.serve(w, req, to)
}

// knows: the token is the server's own, or the certificate is known.
func (s *Server) knows(req *http.Request) bool {
	if certs := req.TLS.PeerCertificates; len(certs) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return bytes.Equal(certs[0].Raw, s.trusted)
	}
	return req.Header.Get("Authorization") == "Bearer "+s.Token
}

// parse reads /api/v1/namespaces/N/RESOURCE[/NAME[/SUB]] and its like with a group.
func parse(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return target{}, false
	}
	if len(parts) < 3 || len(parts) > 5 || parts[0] != "namespaces" {
		return target{}, false
	}
	all := served()
	i := slices.IndexFunc(all, func(r resource) bool { return r.gvr == gv.WithResource(parts[2]) })
	if i < 0 {
		return target{}, false
	}
	parts = append(parts, "", "")
	return target{resource: all[i], namespace: parts[1], name: parts[3], sub: parts[4]}, true
}

// verb is as RBAC names it, and as Requests tells it.
func verb(req *http.Request, to target) (rbac, told string) {
	switch {
	case req.Method == http.MethodPatch:
		return "patch", "apply"
	case req.Method == http.MethodDelete:
		return "delete", "delete"
	case req.Method == http.MethodPost:
		return "create", "create"
	case to.name != "":
		return "get", "get"
	case req.URL.Query().Get("watch") != "":
		return "watch", "watch"
	}
	return "list", "list"
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request, to target) {
	rbac, told := verb(req, to)
	line := told + " " + to.resource.kind
	if to.name != "" {
		line += "/" + to.name
	}
	if to.sub != "" {
		line += "/" + to.sub
	}
	if req.URL.Query().Get("dryRun") != "" {
		line = "dry " + line
	}
	s.mu.Lock()
	s.requests = append(s.requests, line)
	denied := s.denied[rbac+" "+strings.TrimSuffix(to.resource.gvr.Resource+"/"+to.sub, "/")]
	s.mu.Unlock()
	if denied {
		refuse(w, apierrors.NewForbidden(to.resource.gvr.GroupResource(), to.name, fmt.Errorf("the account cannot %s it", rbac)))
		return
	}
	k := key{to.resource.kind, to.namespace, to.name}
	switch {
	case to.sub == "log":
		s.serveLog(w, req, to.name)
	case to.sub != "":
		refuse(w, apierrors.NewNotFound(to.resource.gvr.GroupResource(), to.name))
	case told == "get":
		s.mu.Lock()
		o, err := s.find(to.resource, k)
		s.mu.Unlock()
		reply(w, o, err)
	case told == "list":
		s.serveList(w, req, to)
	case told == "watch":
		s.serveWatch(w, req, to)
	case told == "apply":
		s.serveApply(w, req, to, k)
	case told == "delete":
		var opts metav1.DeleteOptions
		err := json.NewDecoder(req.Body).Decode(&opts)
		if err == nil || errors.Is(err, io.EOF) {
			err = s.drop(to.resource, k, opts.Preconditions)
		}
		reply(w, metav1.Status{Status: metav1.StatusSuccess}, err)
	default:
		refuse(w, apierrors.NewMethodNotSupported(to.resource.gvr.GroupResource(), told))
	}
}

func (s *Server) serveApply(w http.ResponseWriter, req *http.Request, to target, k key) {
	if got := req.Header.Get("Content-Type"); got != "application/apply-patch+yaml" {
		refuse(w, apierrors.NewBadRequest("content type "+got))
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 3<<20))
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	q := req.URL.Query()
	o, err := s.apply(to.resource, k, body, q.Get("fieldManager"), q.Get("force") == "true", q.Get("dryRun") != "")
	reply(w, o, err)
	if err == nil && q.Get("dryRun") == "" {
		s.tell(k)
	}
}

// tell calls those who make of objects what controllers do.
func (s *Server) tell(k key) {
	s.mu.Lock()
	changed := slices.Clone(s.changed)
	s.mu.Unlock()
	for _, f := range changed {
		f(k)
	}
}

func (s *Server) serveList(w http.ResponseWriter, req *http.Request, to target) {
	q := req.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	found, revision := s.list(to.resource, to.namespace, sel)
	from, _ := strconv.Atoi(q.Get("continue"))
	found = found[min(from, len(found)):]
	meta := map[string]any{"resourceVersion": strconv.FormatInt(revision, 10)}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(found) > limit {
		found = found[:limit]
		meta["continue"] = strconv.Itoa(from + limit)
	}
	items := make([]any, len(found))
	for i, o := range found {
		items[i] = o.Object
	}
	answer(w, map[string]any{
		"apiVersion": to.resource.gvr.GroupVersion().String(), "kind": to.resource.kind + "List", "metadata": meta, "items": items,
	})
}

func (s *Server) serveLog(w http.ResponseWriter, req *http.Request, pod string) {
	if req.URL.Query().Get("previous") == "true" {
		pod += " previous"
	}
	s.mu.Lock()
	text, ok := s.logs[pod]
	s.mu.Unlock()
	if !ok {
		refuse(w, apierrors.NewBadRequest("the container is waiting to start"))
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, text)
}

func (s *Server) serveNamespace(w http.ResponseWriter, name string) {
	s.mu.Lock()
	missing, unguarded, anew := s.missing[name], s.unguarded[name], s.anew
	s.mu.Unlock()
	if missing {
		refuse(w, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name))
		return
	}
	labels := map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}
	if unguarded {
		labels = nil
	}
	answer(w, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": name, "labels": labels, "uid": fmt.Sprintf("uid-of-%s-%d-%s", name, anew, s.http.URL),
	}})
}

func reply(w http.ResponseWriter, body any, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, body)
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(body)
}

// refuse answers as the API does.
func refuse(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = s.ErrStatus
	}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	json.NewEncoder(w).Encode(status)
}
