package kube

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// byHand is for people who apply the entry layer themselves.
const byHand = "../../deploy/kubernetes"

const generated = "# Generated from pkg/kube: UPDATE=1 go test ./pkg/kube\n"

// TestManifestsAreWhatIsRendered keeps deploy/kubernetes and what management applies
// the same. UPDATE=1 writes the files.
func TestManifestsAreWhatIsRendered(t *testing.T) {
	want := manifests(t)
	for name, text := range want {
		golden(t, filepath.Join("..", byHand, name), text)
	}
	for _, dir := range []string{"access", "entry"} {
		err := filepath.WalkDir(filepath.Join(byHand, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(byHand, path)
			if _, ok := want[rel]; !ok {
				t.Errorf("%s is not rendered any more", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// manifests are the files by name: what an operator applies once for management, and
// a base of Kustomize.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	rights, err := RBAC("")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"access/rbac.yaml": generated + text(t, rights...)}
	l := someLayer()
	l.Image = "meshctl"
	var names []string
	for _, o := range render(t, l, someFacts()) {
		if o.Kind() == "ConfigMap" {
			data := o["data"].(map[string]any)
			out["entry/"+configKey], out["entry/"+mgmtKey] = data[configKey].(string), data[mgmtKey].(string)
			continue
		}
		impersonal(o)
		name := strings.ToLower(o.Kind()) + ".yaml"
		out["entry/"+name] = generated + text(t, o)
		names = append(names, name)
	}
	out["access/kustomization.yaml"] = kustomization(t, map[string]any{"resources": []string{"rbac.yaml"}})
	out["entry/kustomization.yaml"] = kustomization(t, map[string]any{
		"namespace":          DefaultNamespace,
		"resources":          names,
		"configMapGenerator": []any{map[string]any{"name": Name, "files": []string{configKey, mgmtKey}}},
	})
	return out
}

func text(t *testing.T, objects ...Object) string {
	t.Helper()
	text, err := YAML(objects)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func kustomization(t *testing.T, k map[string]any) string {
	t.Helper()
	maps.Copy(k, map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"})
	text, err := yaml.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return generated + string(text)
}

// impersonal takes out of an object what makes management look after it. Kustomize
// names the ConfigMap after what is in it, so the hash goes too.
func impersonal(v any) {
	switch x := v.(type) {
	case Object:
		impersonal(map[string]any(x))
	case map[string]any:
		for _, key := range []string{"namespace", LabelMesh, LabelCluster, LabelRelease, AnnotationEpoch, AnnotationConfig} {
			delete(x, key)
		}
		if x[LabelManagedBy] != nil {
			x[LabelManagedBy] = "kustomize"
		}
		for key, e := range x {
			impersonal(e)
			if m, ok := e.(map[string]any); ok && key == "annotations" && len(m) == 0 {
				delete(x, key)
			}
		}
	case []any:
		for _, e := range x {
			impersonal(e)
		}
	}
}

// The example is written by hand; what it changes must be there.
func TestTheExampleChangesWhatThereIs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(byHand, "example/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Resources          []string
		ConfigMapGenerator []struct{ Files []string }
		Patches            []struct {
			Target struct{ Kind string }
			Patch  string
		}
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(k.Resources, []string{"../entry"}) || len(k.ConfigMapGenerator) != 1 || len(k.Patches) == 0 {
		t.Fatalf("%+v", k)
	}
	for _, file := range k.ConfigMapGenerator[0].Files {
		mine, err1 := os.ReadFile(filepath.Join(byHand, "example", file))
		theirs, err2 := os.ReadFile(filepath.Join(byHand, "entry", file))
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
		}
		if file == configKey && keysOf(t, mine) != keysOf(t, theirs) {
			t.Errorf("%s: keys %s; want %s", file, keysOf(t, mine), keysOf(t, theirs))
		}
	}
	for _, p := range k.Patches {
		var ops []struct{ Op, Path string }
		if err := yaml.Unmarshal([]byte(p.Patch), &ops); err != nil {
			t.Fatal(err)
		}
		for _, o := range render(t, someLayer(), someFacts()) {
			if o.Kind() == p.Target.Kind && at(map[string]any(o), ops[0].Path) == nil {
				t.Errorf("%s has no %s", o.Kind(), ops[0].Path)
			}
		}
	}
}

// keysOf are the keys of a configuration, with those inside them.
func keysOf(t *testing.T, data []byte) string {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k, v := range m {
		inner, _ := v.(map[string]any)
		keys = append(keys, k+":"+strings.Join(slices.Sorted(maps.Keys(inner)), "+"))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// at follows a JSON pointer.
func at(v any, pointer string) any {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			i := int(step[0] - '0')
			if len(step) != 1 || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}
