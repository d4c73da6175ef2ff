package kubetest

import (
	_ "embed"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

//go:embed schema.yaml
var schemaYAML string

// schemas say how objects are merged.
type schemas struct{ parser *typed.Parser }

func newSchemas() (schemas, error) {
	p, err := typed.NewParser(typed.YAMLObject(schemaYAML))
	if err != nil {
		return schemas{}, fmt.Errorf("kubetest: read the schema: %w", err)
	}
	return schemas{p}, nil
}

func (t schemas) of(kind string) typed.ParseableType {
	switch kind {
	case "Deployment", "DaemonSet":
		return t.parser.Type("workload")
	case "Pod":
		return t.parser.Type("pod")
	case "Service":
		return t.parser.Type("Service")
	}
	return t.parser.Type("other")
}

// ObjectToTyped and TypedToObject are managedfields.TypeConverter.
func (t schemas) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("kubetest: merge a %T", o)
	}
	return t.of(u.GetKind()).FromUnstructured(u.Object, opts...)
}

func (t schemas) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	m, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("kubetest: merge what is no object")
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// fields keeps track of who owns which field of a kind.
func (t schemas) fields(gvk schema.GroupVersionKind, subresource string) (*managedfields.FieldManager, error) {
	return managedfields.NewDefaultFieldManager(t, asItIs{}, asItIs{}, asItIs{}, gvk, gvk.GroupVersion(), subresource, nil)
}

// asItIs converts and defaults nothing: there is one version of each kind.
type asItIs struct{}

func (asItIs) Convert(_, _, _ any) error { return nil }

func (asItIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asItIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (asItIs) Default(runtime.Object) {}

func (asItIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}
