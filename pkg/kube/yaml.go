package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Decode reads an object from JSON; whole numbers are int64, as the libraries of
// Kubernetes want them.
func Decode(data []byte) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var o map[string]any
	if err := dec.Decode(&o); err != nil {
		return nil, fmt.Errorf("kube: read an object: %w", err)
	}
	return Object(numbers(o).(map[string]any)), nil
}

func numbers(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			t[k] = numbers(e)
		}
	case []any:
		for i, e := range t {
			t[i] = numbers(e)
		}
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		f, _ := t.Float64() // too large or small is infinite or zero
		return f
	}
	return v
}

// plainAll makes maps, lists and numbers those of Decode.
func plainAll(in []Object) ([]Object, error) {
	out := make([]Object, len(in))
	for i, o := range in {
		data, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("kube: render: %w", err)
		}
		if out[i], err = Decode(data); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Kind and Ref name an object: "Service", "Service/meshctl-entry".
func (o Object) Kind() string { s, _ := o["kind"].(string); return s }

// Ref is Kind/name.
func (o Object) Ref() string {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return o.Kind() + "/" + name
}

// YAML writes objects as documents of one file, for people and for kubectl.
func YAML(objects []Object) (string, error) {
	var out strings.Builder
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("kube: write %s: %w", o.Ref(), err)
		}
		out.Write(text)
	}
	return out.String(), nil
}
