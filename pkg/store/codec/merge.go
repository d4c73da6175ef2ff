package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Merge returns the stored form of v, which was decoded from old and then
// changed: every member of old that V does not know is kept, in nested objects
// too. Inside a list, an element keeps its unknown members while its known part
// is unchanged.
//
// What V knows is found by decoding old and encoding it again; a member that
// differs from a known one in letter case alone is that member, because
// encoding/json reads it so.
func Merge[V any](old []byte, v V) ([]byte, error) {
	before, err := Decode[V](old)
	if err != nil {
		return nil, err
	}
	was, err := parse(old)
	if err != nil {
		return nil, err
	}
	known, err := tree(before)
	if err != nil {
		return nil, err
	}
	next, err := tree(v)
	if err != nil {
		return nil, err
	}
	oldest, err := header(old)
	if err != nil {
		return nil, err
	}
	delete(was, memberSchema)
	delete(was, memberMinReader)
	body, err := marshal(mergeObject(was, known, next))
	if err != nil {
		return nil, err
	}
	return withHeader(body, max(oldest, MinReader))
}

func tree(v any) (map[string]any, error) {
	body, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return parse(body)
}

// parse keeps numbers as they are written: an unknown one may need more than a
// float64 holds.
func parse(data []byte) (map[string]any, error) {
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		return nil, damaged(err)
	}
	if err := checkDepth(m, maxDepth); err != nil {
		return nil, damaged(err)
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}

func checkDepth(v any, left int) error {
	if left == 0 {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch t := v.(type) {
	case map[string]any:
		for _, e := range t {
			if err := checkDepth(e, left-1); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range t {
			if err := checkDepth(e, left-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge returns next with what was has beyond known.
func merge(was, known, next any) any {
	switch n := next.(type) {
	case map[string]any:
		if w, ok := was.(map[string]any); ok {
			k, _ := known.(map[string]any)
			return mergeObject(w, k, n)
		}
	case []any:
		w, ok1 := was.([]any)
		k, ok2 := known.([]any)
		if ok1 && ok2 && len(w) == len(k) {
			return mergeList(w, k, n)
		}
	}
	return next
}

func mergeObject(was, known, next map[string]any) map[string]any {
	out := maps.Clone(next)
	for name, w := range was {
		k, isKnown := member(known, name)
		if n, ok := next[name]; ok {
			out[name] = merge(w, k, n)
			continue
		}
		if _, stays := member(next, name); !isKnown && !stays {
			out[name] = w
		}
	}
	return out
}

// member finds name as encoding/json does: exactly, else whatever the case.
func member(m map[string]any, name string) (any, bool) {
	if v, ok := m[name]; ok {
		return v, true
	}
	for k, v := range m {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return nil, false
}

// mergeList pairs each element of next with an element of was whose known part
// is equal; twins are paired in order.
func mergeList(was, known, next []any) []any {
	at := make(map[string][]int, len(known))
	for i, k := range known {
		c := canonical(k)
		at[c] = append(at[c], i)
	}
	out := make([]any, len(next))
	for i, n := range next {
		out[i] = n
		c := canonical(n)
		if same := at[c]; len(same) > 0 {
			at[c] = same[1:]
			out[i] = merge(was[same[0]], known[same[0]], n)
		}
	}
	return out
}

// canonical is equal for equal values: encoding/json sorts members.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // decoded JSON always marshals
	}
	return string(b)
}
