package kubetest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Object is one as JSON has it.
type Object = map[string]any

func resourceOf(t testing.TB, kind string) resource {
	t.Helper()
	all := served()
	i := slices.IndexFunc(all, func(r resource) bool { return r.kind == kind })
	if i < 0 {
		t.Fatalf("kubetest: there is no kind %s", kind)
	}
	return all[i]
}

// Get is a copy of an object, nil when there is none.
func (s *Server) Get(t testing.TB, kind, namespace, name string) Object {
	t.Helper()
	r := resourceOf(t, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key{r.kind, namespace, name}]
	if o == nil {
		return nil
	}
	return o.DeepCopy().Object
}

// Names are those of a kind in a namespace.
func (s *Server) Names(t testing.TB, kind, namespace string) []string {
	t.Helper()
	list, _ := s.list(resourceOf(t, kind), namespace, labels.Everything())
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return names
}

// Edit changes an object, or makes one, as another client does that does not apply.
func (s *Server) Edit(t testing.TB, manager, kind, namespace, name string, edit func(Object)) {
	t.Helper()
	s.edit(t, manager, "", kind, namespace, name, edit)
}

// EditStatus changes it as a controller does.
func (s *Server) EditStatus(t testing.TB, kind, namespace, name string, edit func(Object)) {
	t.Helper()
	s.edit(t, "kube-controller-manager", "status", kind, namespace, name, edit)
}

// Scale sets the number of pods, as an autoscaler or `kubectl scale` does.
func (s *Server) Scale(t testing.TB, manager, namespace, name string, replicas int) {
	t.Helper()
	s.edit(t, manager, "scale", "Deployment", namespace, name, func(o Object) {
		o["spec"].(map[string]any)["replicas"] = int64(replicas)
	})
	s.tell(key{"Deployment", namespace, name})
}

func (s *Server) edit(t testing.TB, manager, subresource, kind, namespace, name string, edit func(Object)) {
	t.Helper()
	r := resourceOf(t, kind)
	err := s.update(r, key{r.kind, namespace, name}, manager, subresource, func(u *unstructured.Unstructured) { edit(u.Object) })
	if err != nil {
		t.Errorf("kubetest: edit %s/%s: %v", kind, name, err)
	}
}

// Apply is server-side apply by another client.
func (s *Server) Apply(t testing.TB, manager, namespace string, o Object, force bool) error {
	t.Helper()
	u := &unstructured.Unstructured{Object: o}
	r := resourceOf(t, u.GetKind())
	body, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.apply(r, key{r.kind, namespace, u.GetName()}, body, manager, force, false)
	return err
}

// Delete removes an object.
func (s *Server) Delete(t testing.TB, kind, namespace, name string) {
	t.Helper()
	r := resourceOf(t, kind)
	if err := s.drop(r, key{r.kind, namespace, name}, nil); err != nil {
		t.Errorf("kubetest: delete %s/%s: %v", kind, name, err)
	}
}
