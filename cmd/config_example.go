package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// exampleConfig is a configuration file of a role with every key, its meaning
// and its default. All are comments, so that the file changes nothing until
// somebody takes a "#" away.
func exampleConfig(name string) ([]byte, error) {
	r, err := newRole(name)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# How meshctl %s runs on this machine. Every key is here with its default: take the
# "#" before a key away, and before the keys it stands below, and set it.
# What applies and why: meshctl config show --role %s --origin
`, name, name)
	var open []string // the keys that the last one stood below
	for _, s := range settings(r) {
		above := s.path[:len(s.path)-1]
		same := 0
		for same < min(len(above), len(open)) && above[same] == open[same] {
			same++
		}
		for i := same; i < len(above); i++ {
			fmt.Fprintf(&b, "\n#%s%s:\n", indent(i), above[i])
		}
		if len(above) == 0 {
			b.WriteByte('\n')
		}
		open = slices.Clone(above)
		text, err := exampleValue(s.value.Interface())
		if err != nil {
			return nil, fmt.Errorf("configuration key %s: %w", s.key(), err)
		}
		fmt.Fprintf(&b, "%s# %s\n#%s%s: %s\n", indent(len(above)), s.help, indent(len(above)), s.path[len(above)], text)
	}
	return []byte(b.String()), nil
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

// exampleValue writes a default as YAML on one line.
func exampleValue(v any) (string, error) {
	if d, ok := v.(time.Duration); ok {
		return shortDuration(d), nil
	}
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return "", err
	}
	n.Style = yaml.FlowStyle
	if list, ok := v.([]string); ok && len(list) == 0 {
		return "[]", nil
	}
	text, err := yaml.Marshal(&n)
	return strings.TrimSpace(string(text)), err
}

// shortDuration is a duration without the units that are zero: 10m, not 10m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
