package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExampleConfigurationChangesNothingAndUncommentedSaysTheDefaults(t *testing.T) {
	for _, name := range roleNames() {
		t.Run(name, func(t *testing.T) {
			text, err := exampleConfig(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := loadedFrom(t, name, string(text)); got != shape(fresh(t, name)) {
				t.Errorf("the example changes the defaults: %s", got)
			}
			if got := loadedFrom(t, name, uncommented(string(text))); got != shape(fresh(t, name)) {
				t.Errorf("the example, uncommented, is not the defaults:\n%s\n got %s\nwant %s", uncommented(string(text)), got, shape(fresh(t, name)))
			}
			for line := range strings.Lines(string(text)) {
				if line != "\n" && !strings.HasPrefix(strings.TrimLeft(line, " "), "#") {
					t.Errorf("a line that is no comment: %q", line)
				}
			}
		})
	}
}

func fresh(t *testing.T, name string) role {
	t.Helper()
	r, err := newRole(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shape is all a configuration holds, as text: no list and an empty one are the
// same.
func shape(r role) string { return fmt.Sprintf("%+v", r) }

func loadedFrom(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := fresh(t, name)
	if _, err := loadConfigFrom(nil, name, file, r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return shape(r)
}

// uncommented takes the "#" before every key away.
func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		key, isKey := strings.CutPrefix(line, "#")
		first, _, _ := strings.Cut(strings.TrimLeft(key, " "), ":")
		if isKey && !strings.HasPrefix(line, "# ") || isKey && strings.HasPrefix(line, "#  ") && !strings.Contains(first, " ") {
			line = key
		}
		b.WriteString(line)
	}
	return b.String()
}
