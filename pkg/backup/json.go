package backup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// maxDepth bounds how deep objects and lists nest.
const maxDepth = 512

// parseJSON reads a JSON object; numbers stay the text they are.
func parseJSON(data []byte) (map[string]any, error) {
	if len(data) > MaxObject {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(data), MaxObject)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	if m == nil {
		return nil, errors.New("want a JSON object")
	}
	if depthOf(m) > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d", maxDepth)
	}
	return m, nil
}

func depthOf(v any) int {
	deepest := 0
	switch t := v.(type) {
	case map[string]any:
		for _, e := range t {
			deepest = max(deepest, depthOf(e))
		}
	case []any:
		for _, e := range t {
			deepest = max(deepest, depthOf(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// Canonical returns the one form of a JSON object: no space, the header first,
// then members by name, numbers as they are. It returns ErrInvalid.
func Canonical(data []byte) ([]byte, error) {
	m, err := parseJSON(data)
	if err != nil {
		return nil, fmt.Errorf("backup: read object: %w: %w", err, mesh.ErrInvalid)
	}
	return appendObject(nil, m), nil
}

// Equal says whether two JSON objects mean the same: the same members and
// values, numbers to the digit.
func Equal(a, b []byte) bool {
	x, err1 := Canonical(a)
	y, err2 := Canonical(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// appendObject writes an object of the state, with its header first.
func appendObject(b []byte, m map[string]any) []byte {
	rank := func(k string) int { return slices.Index([]string{memberMinReader, memberSchema}, k) }
	keys := slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(y), rank(x)), cmp.Compare(x, y))
	})
	return appendMembers(b, m, keys)
}

func appendMembers(b []byte, m map[string]any, keys []string) []byte {
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, k), ':')
		b = appendJSON(b, m[k])
	}
	return append(b, '}')
}

const (
	memberSchema    = "schema"
	memberMinReader = "minReader"
)

func appendJSON(b []byte, v any) []byte {
	switch t := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return fmt.Append(b, t)
	case json.Number:
		return append(b, t...)
	case string:
		return appendJSONString(b, t)
	case []any:
		b = append(b, '[')
		for i, e := range t {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e)
		}
		return append(b, ']')
	case map[string]any:
		return appendMembers(b, t, slices.Sorted(maps.Keys(t)))
	}
	panic(fmt.Sprintf("backup: a %T is no JSON value", v))
}

func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20 || r == 0x7f:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
