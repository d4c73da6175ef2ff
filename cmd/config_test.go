package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sources are where a value can come from, the weakest first.
var sources = []string{"default", "file", "env", "flag"}

// sample is a value of a setting's type, and its text, that is another one for
// each source.
func sample(t *testing.T, s setting, source int) (any, string) {
	t.Helper()
	switch s.value.Interface().(type) {
	case string:
		v := sources[source] + ".Of-" + s.flag() // capitals and dots stay
		return v, v
	case bool:
		return source%2 == 1, fmt.Sprint(source%2 == 1)
	case int:
		return 1000 + source, fmt.Sprint(1000 + source)
	case int64:
		return int64(1000 + source), fmt.Sprint(1000 + source)
	case time.Duration:
		d := time.Duration(source+1) * time.Minute
		return d, d.String()
	case []string:
		return []string{sources[source], "Alice", "a.b"}, sources[source] + ",Alice,a.b"
	}
	t.Fatalf("%s: no sample of type %v", s.key(), s.value.Type())
	return nil, ""
}

// yamlOf nests a value below its path.
func yamlOf(path []string, text string) string {
	var b strings.Builder
	for i, p := range path {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), p)
		if i < len(path)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String() + " " + text + "\n"
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Flag over environment over file over default, for every key of every role,
// and the origin says which it was (F-03).
func TestPrecedenceOfEveryKey(t *testing.T) {
	for _, name := range roleNames() {
		blank, err := newRole(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range settings(blank) {
			for top := range sources {
				t.Run(fmt.Sprintf("%s %s from %s", name, s.key(), sources[top]), func(t *testing.T) { winsFrom(t, name, i, top) })
			}
		}
	}
}

func winsFrom(t *testing.T, name string, index, top int) {
	r, err := newRole(name)
	if err != nil {
		t.Fatal(err)
	}
	s := settings(r)[index]
	want := s.value.Interface()
	from, file := "default", ""
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, each := range settings(r) {
		settingFlag(flags, each)
	}
	for source := 1; source <= top; source++ {
		var text string
		want, text = sample(t, s, source)
		switch sources[source] {
		case "file":
			file = write(t, "# a comment\n"+yamlOf(s.path, text))
			if _, isList := want.([]string); isList {
				file = write(t, "# a comment\n"+yamlOf(s.path, "["+text+"]"))
			}
			from = fmt.Sprintf("file %s:%d", file, 1+len(s.path))
		case "env":
			t.Setenv(s.env(), text)
			from = "env " + s.env()
		case "flag":
			if err := flags.Set(s.flag(), text); err != nil {
				t.Fatal(err)
			}
			from = "flag --" + s.flag()
		}
	}
	if file == "" {
		file = write(t, "") // not the one of this machine
	}
	origins, err := loadConfigFrom(flags, name, file, r)
	if err != nil {
		t.Fatal(err)
	}
	if got := settings(r)[index].value.Interface(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if o := origins[index]; o.Key != s.key() || o.Origin != from {
		t.Errorf("got %s from %q, want %s from %q", o.Key, o.Origin, s.key(), from)
	}
}

func TestNoTwoKeysShareAFlagOrAVariable(t *testing.T) {
	for _, name := range roleNames() {
		r, err := newRole(name)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, s := range settings(r) {
			if other, ok := seen[s.env()]; ok {
				t.Errorf("%s: %s and %s are both %s", name, s.key(), other, s.env())
			}
			seen[s.env()] = s.key()
			if s.help == "" {
				t.Errorf("%s: %s has no help", name, s.key())
			}
		}
	}
}

// What is wrong with a file ends with 78 and is named with file and line (F-01,
// F-02).
func TestFaultsOfConfigurationFiles(t *testing.T) {
	tests := []struct{ name, role, text, want, near string }{
		{"an unknown key", "mgmt", "name: one\nlisten_adress: x\n", `:2: unknown key "listen_adress"`, "listen"},
		{"a key with a letter missing", "core", "dir: /x\nmetrics-lisen: x\n", `:2: unknown key "metrics-lisen"`, "metrics-listen"},
		{"a nested key with two letters swapped", "mgmt", "etcd:\n  qouta: 1\n", `:2: unknown key "etcd.qouta"`, "etcd.quota"},
		{"a key in capitals", "entry", "Listen: ':1'\n", `:1: unknown key "Listen"`, "listen"},
		{"a nested key at the top", "core", "kind: proxy\n", `:1: unknown key "kind", no known key is near`, ""},
		{"a key of another role", "entry", "egress:\n  kind: proxy\n", `:1: unknown key "egress"`, ""},
		{"a key twice", "core", "dir: /a\ndir: /b\n", `:2: key "dir" is in line 1 already`, ""},
		{"a nested key twice", "core", "log: {level: info, level: warn}\n", `:1: key "log.level" is in line 1 already`, ""},
		{"a nested key written with a dot", "core", "egress.kind: forward\n", `:1: key "egress.kind": a dot does not nest, write "kind" below "egress"`, ""},
		{"a second document", "core", "dir: /a\n---\ndir: /b\n", "want one document", ""},
		{"a list where a text belongs", "core", "dir: [a]\n", "configuration key dir", ""},
		{"keys where a text belongs", "core", "dir: {a: b}\n", "configuration key dir", ""},
		{"a text where keys belong", "core", "egress: proxy\n", "want keys with values", ""},
		{"keys in a list of texts", "core", "advertise: [{a: b}]\n", "configuration key advertise: element 1", ""},
		{"a number that is none", "core", "connections: many\n", `configuration key connections: "many": want a whole number`, ""},
		{"a fraction", "core", "connections: 1.5\n", "want a whole number", ""},
		{"a time without a unit", "core", "drain: 90\n", `configuration key drain: "90": want a number with a unit`, ""},
		{"neither true nor false", "entry", "proxies: {required: maybe}\n", "configuration key proxies.required", ""},
		{"a key without a value", "core", "dir:\n", `:1: key "dir" has no value`, ""},
		{"a list without a value", "core", "egress:\n  allow:\n", `:2: key "egress.allow" has no value`, ""},
		{"no keys at all", "core", "- a\n", "want keys with values", ""},
		{"what is no YAML", "core", "dir: [\n", "yaml", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, tt.text)
			r, err := newRole(tt.role)
			if err != nil {
				t.Fatal(err)
			}
			_, err = loadConfigFrom(nil, tt.role, file, r)
			var stderr bytes.Buffer
			if code := report(&stderr, err); code != exitConfig {
				t.Errorf("exit code %d, want %d", code, exitConfig)
			}
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s and %s", err, file, tt.want)
			}
			if tt.near != "" && !strings.Contains(err.Error(), fmt.Sprintf("did you mean %q?", tt.near)) {
				t.Errorf("got %v, want the nearest key %s", err, tt.near)
			}
		})
	}
}

func TestAFileWithoutEndIsNotReadToIt(t *testing.T) {
	_, err := loadConfigFrom(nil, "core", "/dev/zero", newCoreConfig())
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func TestFilesThatSetNothing(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "log:\n  # level: debug\n", "egress: {}\n"} {
		origins, err := loadConfigFrom(nil, "core", write(t, text), newCoreConfig())
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for _, o := range origins {
			if o.Origin != "default" {
				t.Errorf("%q: %s is from %s", text, o.Key, o.Origin)
			}
		}
	}
}

func TestFaultsOfTheEnvironmentNameTheVariable(t *testing.T) {
	t.Setenv("MESHCTL_CONNECTIONS", "many")
	_, err := loadConfigFrom(nil, "core", write(t, "connections: 5\n"), newCoreConfig())
	if err == nil || !strings.HasPrefix(err.Error(), "env MESHCTL_CONNECTIONS: ") {
		t.Errorf("got %v", err)
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	_, err := loadConfigFrom(nil, "core", write(t, "dri: x\nlog:\n  levl: y\n"), newCoreConfig())
	if err == nil || !strings.Contains(err.Error(), "dri") || !strings.Contains(err.Error(), "log.levl") {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatWasAskedForMustBeThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.yaml")
	_, err := loadConfigFrom(nil, "core", file, newCoreConfig())
	if _, ok := errors.AsType[*configError](err); !ok || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// Every key is a flag of the role's command.
func TestEveryKeyIsAFlag(t *testing.T) {
	for name, c := range map[string]*cobra.Command{"mgmt": newMgmtServe(), "core": newCoreRun(), "entry": newEntryRun()} {
		r, err := newRole(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range settings(r) {
			if c.Flags().Lookup(s.flag()) == nil {
				t.Errorf("%s has no --%s", c.CommandPath(), s.flag())
			}
		}
	}
}
