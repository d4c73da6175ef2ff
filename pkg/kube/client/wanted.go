package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
)

// wanted is one object as it is to be.
type wanted struct {
	kind kind
	*unstructured.Unstructured
	hash [sha256.Size]byte // as rendered
	// begin is how many pods a Deployment begins with whose number is an autoscaler's;
	// 0 is what the cluster makes of it, which is one.
	begin int64
}

func (w wanted) key() string { return ref(w.Unstructured) }

// want reads the objects of a work, in the order of applying. The epoch is written
// into each.
func want(objects []kube.Object, namespace string, epoch kube.Epoch) ([]wanted, error) {
	list := make([]wanted, 0, len(objects))
	for _, o := range objects {
		w, err := wantOne(o, namespace)
		if err != nil {
			return nil, err
		}
		note(w.Unstructured, kube.AnnotationEpoch, epoch.String())
		list = append(list, w)
	}
	for i := range list {
		list[i].begin = beginOf(list[i], list)
	}
	slices.SortStableFunc(list, func(a, b wanted) int {
		return cmp.Or(rank(a.kind.name)-rank(b.kind.name), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list, nil
}

func wantOne(o kube.Object, namespace string) (wanted, error) {
	// A copy, with numbers as the library has them.
	text, err := json.Marshal(o)
	if err != nil {
		return wanted{}, fmt.Errorf("client: read an object: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return wanted{}, fmt.Errorf("client: read an object: %w", err)
	}
	k, ok := kindOfName(u.GetKind())
	if !ok || k.made || u.GetName() == "" {
		return wanted{}, fmt.Errorf("client: read an object: %s is none that is applied here", ref(u))
	}
	if u.GetAPIVersion() != k.api.GroupVersion().String() {
		return wanted{}, fmt.Errorf("client: read an object: %s is not of %s", ref(u), k.api.GroupVersion())
	}
	u.SetNamespace(namespace)
	if k.name == "Deployment" && replicasOf(u) == nil {
		note(u, noteScaled, "autoscaler")
	}
	return wanted{kind: k, Unstructured: u, hash: sha256.Sum256(text)}, nil
}

func beginOf(w wanted, list []wanted) int64 {
	if w.kind.name != "Deployment" || replicasOf(w.Unstructured) != nil {
		return 0
	}
	i := slices.IndexFunc(list, func(o wanted) bool { return o.kind.name == "HorizontalPodAutoscaler" })
	if i < 0 {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(list[i].Object, "spec", "minReplicas")
	return n
}

func note(u *unstructured.Unstructured, key, value string) {
	notes := u.GetAnnotations()
	if notes == nil {
		notes = make(map[string]string, 1)
	}
	notes[key] = value
	u.SetAnnotations(notes)
}

// replicasOf is the number of pods in an object's specification, nil for none.
func replicasOf(u *unstructured.Unstructured) *int64 {
	n, ok, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !ok || err != nil {
		return nil
	}
	return &n
}
