package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A resource is one that is served.
type resource struct {
	gvr  schema.GroupVersionResource
	kind string
}

func (r resource) gvk() schema.GroupVersionKind { return r.gvr.GroupVersion().WithKind(r.kind) }

func served() []resource {
	core := func(plural, kind string) resource {
		return resource{schema.GroupVersionResource{Version: "v1", Resource: plural}, kind}
	}
	in := func(group, version, plural, kind string) resource {
		return resource{schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, kind}
	}
	return []resource{
		core("configmaps", "ConfigMap"), core("pods", "Pod"), core("services", "Service"), core("serviceaccounts", "ServiceAccount"),
		in("apps", "v1", "deployments", "Deployment"), in("apps", "v1", "daemonsets", "DaemonSet"), in("apps", "v1", "replicasets", "ReplicaSet"),
		in("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
		in("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
		in("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
	}
}

// key is where an object is.
type key struct{ kind, namespace, name string }

// change is one event in the history of all objects.
type change struct {
	revision int64
	key      key
	was, is  *unstructured.Unstructured // nil: there was, or is, none
}

// write replaces an object and tells the watches; mu is held. Nothing happens when
// nothing is different.
func (s *Server) write(r resource, k key, is *unstructured.Unstructured) *unstructured.Unstructured {
	was := s.objects[k]
	if was != nil && is != nil {
		is.SetResourceVersion(was.GetResourceVersion())
		if reflect.DeepEqual(was.Object, is.Object) {
			return was
		}
	}
	s.revision++
	if is != nil {
		s.complete(r, k, was, is)
		s.objects[k] = is
	} else {
		delete(s.objects, k)
		was = was.DeepCopy()
		was.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	}
	s.history = append(s.history, change{s.revision, k, was, is})
	close(s.more)
	s.more = make(chan struct{})
	return is
}

// complete sets what only the API itself sets.
func (s *Server) complete(r resource, k key, was, is *unstructured.Unstructured) {
	is.SetGroupVersionKind(r.gvk())
	is.SetNamespace(k.namespace)
	is.SetName(k.name)
	is.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if was == nil {
		is.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.revision)))
		is.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	} else {
		is.SetUID(was.GetUID())
		is.SetCreationTimestamp(was.GetCreationTimestamp())
	}
	switch r.kind {
	case "Deployment", "DaemonSet", "NetworkPolicy", "PodDisruptionBudget", "ReplicaSet":
		is.SetGeneration(1)
		if was != nil {
			is.SetGeneration(was.GetGeneration())
			if !reflect.DeepEqual(was.Object["spec"], is.Object["spec"]) {
				is.SetGeneration(was.GetGeneration() + 1)
			}
		}
	}
}

// fill sets the defaults that matter here. They are nobody's fields.
func (s *Server) fill(r resource, o *unstructured.Unstructured) {
	spec, _ := o.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	unset := func(m map[string]any, field string, value any) {
		if _, ok := m[field]; !ok {
			m[field] = value
		}
	}
	switch r.kind {
	case "Deployment":
		unset(spec, "replicas", int64(1))
	case "Service":
		unset(spec, "clusterIP", "10.96.0.10")
		unset(spec, "sessionAffinity", "None")
		ports, _ := spec["ports"].([]any)
		for i, p := range ports {
			if port, ok := p.(map[string]any); ok {
				unset(port, "protocol", "TCP")
				unset(port, "nodePort", int64(30080+i))
			}
		}
	}
}

// find has an object; mu is held.
func (s *Server) find(r resource, k key) (*unstructured.Unstructured, error) {
	o := s.objects[k]
	if o == nil {
		return nil, apierrors.NewNotFound(r.gvr.GroupResource(), k.name)
	}
	return o, nil
}

// apply is server-side apply.
func (s *Server) apply(r resource, k key, body []byte, manager string, force, dry bool) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.base(r, k, o)
	if err != nil {
		return nil, err
	}
	fields, err := s.schemas.fields(r.gvk(), "")
	if err != nil {
		return nil, err
	}
	merged, err := fields.Apply(live, o, manager, force)
	if err != nil {
		return nil, err
	}
	is := merged.(*unstructured.Unstructured).DeepCopy()
	s.fill(r, is)
	if dry {
		return is, nil
	}
	return s.write(r, k, is).DeepCopy(), nil
}

// base is what an object is written on top of.
func (s *Server) base(r resource, k key, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := s.objects[k]
	if v := o.GetResourceVersion(); v != "" && (live == nil || live.GetResourceVersion() != v) {
		return nil, apierrors.NewConflict(r.gvr.GroupResource(), k.name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if live != nil {
		return live.DeepCopy(), nil
	}
	if s.missing[k.namespace] {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, k.namespace)
	}
	live = &unstructured.Unstructured{}
	live.SetGroupVersionKind(r.gvk())
	live.SetNamespace(k.namespace)
	live.SetName(k.name)
	return live, nil
}

// update is what a client does that does not apply; subresource is "", "status" or
// "scale".
func (s *Server) update(r resource, k key, manager, subresource string, edit func(*unstructured.Unstructured)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.base(r, k, &unstructured.Unstructured{})
	if err != nil {
		return err
	}
	is := live.DeepCopy()
	edit(is)
	is, err = plain(is)
	if err != nil {
		return err
	}
	s.fill(r, is)
	fields, err := s.schemas.fields(r.gvk(), subresource)
	if err != nil {
		return err
	}
	owned, err := fields.Update(live, is, manager)
	if err != nil {
		return err
	}
	s.write(r, k, owned.(*unstructured.Unstructured))
	return nil
}

// plain gives numbers and lists the types that JSON has here.
func plain(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(text)
}

// drop deletes an object if the preconditions hold.
func (s *Server) drop(r resource, k key, pre *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(r, k)
	if err != nil {
		return err
	}
	if pre != nil && (pre.UID != nil && *pre.UID != o.GetUID() || pre.ResourceVersion != nil && *pre.ResourceVersion != o.GetResourceVersion()) {
		return apierrors.NewConflict(r.gvr.GroupResource(), k.name, fmt.Errorf("the precondition failed"))
	}
	s.write(r, k, nil)
	return nil
}

// list has the objects of a namespace that a selector chooses, by name.
func (s *Server) list(r resource, namespace string, sel labels.Selector) ([]*unstructured.Unstructured, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*unstructured.Unstructured
	for k, o := range s.objects {
		if k.kind == r.kind && k.namespace == namespace && sel.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, s.revision
}

// since has the history after a revision, and what is closed when there is more.
func (s *Server) since(revision int64) ([]change, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision < s.compacted {
		err := apierrors.NewResourceExpired("too old resource version")
		err.ErrStatus.Code = http.StatusGone
		return nil, nil, err
	}
	i := slices.IndexFunc(s.history, func(c change) bool { return c.revision > revision })
	if i < 0 {
		return nil, s.more, nil
	}
	return slices.Clone(s.history[i:]), s.more, nil
}
