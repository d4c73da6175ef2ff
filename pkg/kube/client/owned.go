package client

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
)

// Managers of fields. The second holds the number of pods for the moment in which
// it goes over to an autoscaler.
const (
	manager  = kube.FieldManager
	handover = "meshctl-handover"
)

// owned are the fields of an object that a manager applied, with their values: by
// it two states of an object are compared, whatever others did beside. It is nil
// when the manager has none.
func owned(o *unstructured.Unstructured, by string) any {
	fields := fieldsOf(o, by)
	if fields == nil {
		return nil
	}
	return project(o.Object, fields)
}

// fieldsOf is the set of fields that a manager applied, as the API writes it.
func fieldsOf(o *unstructured.Unstructured, by string) map[string]any {
	for _, m := range o.GetManagedFields() {
		if m.Manager != by || m.Operation != metav1.ManagedFieldsOperationApply || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var set map[string]any
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &set) != nil {
			return nil
		}
		return set
	}
	return nil
}

// project keeps of v what is in the set. What is in the set and not in v is nil.
func project(v any, set map[string]any) any {
	out := make(map[string]any, len(set))
	for path, below := range set {
		if path == "." {
			continue
		}
		found := step(v, path)
		if deeper, ok := below.(map[string]any); ok && len(deeper) > 0 {
			found = project(found, deeper)
		}
		out[path] = found
	}
	return out
}

// step goes one element of a path down: "f:name" of an object, `k:{"key":…}`,
// "v:value" or "i:3" of a list.
func step(v any, element string) any {
	sort, rest, _ := strings.Cut(element, ":")
	if sort == "f" {
		object, _ := v.(map[string]any)
		return object[rest]
	}
	items, _ := v.([]any)
	if sort == "i" {
		if i, err := strconv.Atoi(rest); err == nil && i >= 0 && i < len(items) {
			return items[i]
		}
		return nil
	}
	var want any
	if json.Unmarshal([]byte(rest), &want) != nil {
		return nil
	}
	i := slices.IndexFunc(items, func(item any) bool { return has(item, want) })
	if i < 0 {
		return nil
	}
	return items[i]
}

// has says whether an item of a list is the one that is meant: a value, or an object
// with these keys.
func has(item, want any) bool {
	keys, ok := want.(map[string]any)
	if !ok {
		return same(item, want)
	}
	object, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range keys {
		if !same(object[k], v) {
			return false
		}
	}
	return true
}

// same compares values of JSON; numbers are the same whatever type they were read
// into.
func same(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
