package kube

import (
	"encoding/json"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A layer that passes its check is rendered, fits the types of Kubernetes, and reads
// from YAML as it was: nothing in it breaks out of its place.
func FuzzRender(f *testing.F) {
	for _, l := range variants() {
		data, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"image":"a","service":{"annotations":{"a":"\u2028\n---\n'\"{{$"}},"nodeSelector":{"yes":"no"},"tolerations":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l mesh.EntryLayer
		if json.Unmarshal(data, &l) != nil || l.Validate() != nil {
			return
		}
		for _, o := range render(t, l, someFacts()) {
			decode(t, o)
			written, err := YAML([]Object{o})
			if err != nil {
				t.Fatal(err)
			}
			asJSON, err := yaml.YAMLToJSONStrict([]byte(written))
			if err != nil {
				t.Fatalf("%v\n%s", err, written)
			}
			if back, err := Decode(asJSON); err != nil || !reflect.DeepEqual(back, o) {
				t.Fatalf("%v\ngot  %v\nwant %v", err, back, o)
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	r := mesh.EntryRelease{Number: 1, Pods: 1, Layer: someLayer()}
	f := someFacts()
	for b.Loop() {
		if _, err := Render(r, f); err != nil {
			b.Fatal(err)
		}
	}
}
