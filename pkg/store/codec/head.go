package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Head returns a stored value that was written elsewhere in the form that this
// program reads fastest: with its header in front. All members stay, as they
// are written. It returns *TooNewError as Decode does.
func Head(data []byte) ([]byte, error) {
	if _, err := header(data); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, prefix) {
		return data, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, damaged(err)
	}
	var names []string
	for _, n := range []string{memberSchema, memberMinReader} {
		if _, ok := m[n]; ok {
			names = append(names, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(m)) {
		if n != memberSchema && n != memberMinReader {
			names = append(names, n)
		}
	}
	out := bytes.NewBufferString("{")
	for i, n := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := marshal(n)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		if err := json.Compact(out, m[n]); err != nil {
			return nil, damaged(err)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
