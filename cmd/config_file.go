package cmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const maxConfigFile = 1 << 20

// configFile is a configuration file whose every key is known.
type configFile struct {
	name  string
	data  []byte
	lines map[string]int // of each key
}

// readConfigFile reads and checks the file; no file is no error unless it was
// asked for.
func readConfigFile(role, file string, all []setting) (configFile, error) {
	asked := file != ""
	if !asked {
		file = defaultConfigFile(role)
	}
	data, err := readAtMost(file, maxConfigFile+1)
	if !asked && errors.Is(err, os.ErrNotExist) {
		return configFile{}, nil
	}
	if err != nil {
		return configFile{}, fmt.Errorf("configuration: %w", err)
	}
	if len(data) > maxConfigFile {
		return configFile{}, fmt.Errorf("configuration: %s: larger than %d bytes: %w", file, maxConfigFile, mesh.ErrInvalid)
	}
	lines, err := checkKeys(file, data, all)
	return configFile{file, data, lines}, err
}

// readAtMost reads no more of a file than limit bytes.
func readAtMost(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return io.ReadAll(io.LimitReader(f, limit))
}

// checkKeys is what viper lacks: exact case, no unknown key, line numbers.
func checkKeys(file string, data []byte, all []setting) (map[string]int, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("configuration: %s: %w", file, err)
	}
	if len(doc.Content) > 0 && !errors.Is(dec.Decode(&more), io.EOF) {
		return nil, fmt.Errorf("configuration: %s: want one document, here is another after it: %w", file, mesh.ErrInvalid)
	}
	known := make(map[string]bool) // value: is a leaf
	for _, s := range all {
		for i := range s.path {
			known[strings.Join(s.path[:i+1], ".")] = i == len(s.path)-1
		}
	}
	lines := make(map[string]int)
	if len(doc.Content) == 0 {
		return lines, nil
	}
	return lines, walkKeys(file, doc.Content[0], "", known, lines)
}

func walkKeys(file string, n *yaml.Node, prefix string, known map[string]bool, lines map[string]int) error {
	if n.Tag == "!!null" { // what stands below it is commented out
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("configuration: %s:%d: want keys with values: %w", file, n.Line, mesh.ErrInvalid)
	}
	var errs []error
	fault := func(k *yaml.Node, format string, args ...any) {
		errs = append(errs, fmt.Errorf("configuration: %s:%d: %s: %w", file, k.Line, fmt.Sprintf(format, args...), mesh.ErrInvalid))
	}
	first := make(map[string]int) // line of each key
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		key := prefix + k.Value
		leaf, ok := known[key]
		above, below, dotted := strings.Cut(k.Value, ".")
		switch {
		case !ok:
			fault(k, "unknown key %q, %s", mesh.Quotable(key), meant(key, known))
		case dotted:
			fault(k, "key %q: a dot does not nest, write %q below %q", key, below, above)
		case first[key] > 0:
			fault(k, "key %q is in line %d already", key, first[key])
		case leaf && val.Tag == "!!null":
			fault(k, "key %q has no value", key)
		case leaf:
			lines[key] = k.Line
		default:
			errs = append(errs, walkKeys(file, val, key+".", known, lines))
		}
		first[key] = cmp.Or(first[key], k.Line)
	}
	return errors.Join(errs...)
}

// meant says which key is like the unknown one: by spelling, or because it
// begins alike.
func meant(key string, known map[string]bool) string {
	names := slices.Sorted(maps.Keys(known))
	if like := mesh.Nearest(key, names); len(like) > 0 {
		return fmt.Sprintf("did you mean %q?", like[0])
	}
	best, most := "", 2
	for _, name := range names {
		n := 0
		for n < min(len(name), len(key)) && name[n] == key[n] {
			n++
		}
		if n > most {
			best, most = name, n
		}
	}
	if best == "" {
		return "no known key is near"
	}
	return fmt.Sprintf("did you mean %q?", best)
}
