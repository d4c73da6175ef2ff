// Package codec is the one form in which state is stored: a JSON object that
// names the schema it was written in and the oldest schema that may read it.
//
// A writer keeps members it does not know, so that a server of the next version
// and one of this version may write the same object. See
// docs/adr/0002-schema-and-codec.md.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// Schema is what this program writes and the newest it can read.
	Schema = 1
	// MinReader is the oldest schema that can read what this program writes.
	MinReader = 1
	// MaxSize bounds a stored value in bytes; etcd takes 1.5 MiB in one request.
	MaxSize = 1 << 20
	// maxDepth bounds how deep objects and lists nest.
	maxDepth = 64
)

const (
	memberSchema    = "schema"
	memberMinReader = "minReader"
)

// prefix begins everything this program writes, so that the usual value is
// parsed once.
var prefix = fmt.Appendf(nil, `{"schema":%d,"minReader":%d`, Schema, MinReader)

// TooNewError says that a value needs a newer program. It has no kind, because
// neither another try nor another request helps.
type TooNewError struct{ Need int }

func (e *TooNewError) Error() string {
	return fmt.Sprintf("codec: decode: the value needs schema %d, this program reads up to %d", e.Need, Schema)
}

func tooNew(need int) error {
	return mesh.WithHint(&TooNewError{Need: need},
		fmt.Sprintf("upgrade meshctl on this server to a version that reads schema %d", need))
}

// Encode returns v, which must marshal to a JSON object, with its header.
func Encode(v any) ([]byte, error) {
	body, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return withHeader(body, MinReader)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read values with etcdctl
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("codec: encode %T: %w: %w", v, err, mesh.ErrInvalid)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func withHeader(body []byte, minReader int) ([]byte, error) {
	if len(body) < 2 || body[0] != '{' {
		return nil, fmt.Errorf("codec: encode: want a JSON object: %w", mesh.ErrInvalid)
	}
	out := make([]byte, 0, len(body)+len(prefix)+1)
	if minReader == MinReader {
		out = append(out, prefix...)
	} else {
		out = fmt.Appendf(out, `{"schema":%d,"minReader":%d`, Schema, minReader)
	}
	if len(body) > 2 {
		out = append(out, ',')
	}
	out = append(out, body[1:]...)
	if len(out) > MaxSize {
		return nil, fmt.Errorf("codec: encode: %d bytes: want at most %d: %w", len(out), MaxSize, mesh.ErrInvalid)
	}
	return out, nil
}

// Decode reads a stored value. It returns *TooNewError when data needs a newer
// program, and otherwise says what is damaged.
func Decode[V any](data []byte) (V, error) {
	var v V
	if _, err := header(data); err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		var zero V
		return zero, damaged(err)
	}
	return v, nil
}

// header returns the oldest schema that may read data, if this program may.
func header(data []byte) (minReader int, err error) {
	if len(data) > MaxSize {
		return 0, damaged(fmt.Errorf("%d bytes: want at most %d", len(data), MaxSize))
	}
	if rest, ok := bytes.CutPrefix(data, prefix); ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') {
		return MinReader, nil
	}
	minReader, err = minReaderOf(data)
	if err == nil && minReader > Schema {
		err = tooNew(minReader)
	}
	return minReader, err
}

// minReaderOf reads the header of a value that another version or a person
// wrote. A missing minReader is 0: everybody may read it.
func minReaderOf(data []byte) (int, error) {
	var h map[string]json.RawMessage
	if err := json.Unmarshal(data, &h); err != nil {
		return 0, damaged(err)
	}
	if h == nil {
		return 0, damaged(errors.New("want a JSON object"))
	}
	oldest := 0
	if raw, ok := h[memberMinReader]; ok {
		if err := json.Unmarshal(raw, &oldest); err != nil {
			return 0, damaged(fmt.Errorf("minReader: %w", err))
		}
	}
	return oldest, nil
}

// damaged has no kind: a person has to look at the value.
func damaged(err error) error {
	return mesh.WithHint(fmt.Errorf("codec: decode: the value is damaged: %w", err),
		"look at the stored value with etcdctl, and repair it or restore a backup")
}
