package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// fromYAML reads what toYAML wrote, and what a person wrote like it: one
// document, an object, without anchors and tags. What is unquoted and looks like
// a JSON number, boolean or null is one, and everything else is text. An error
// names the line.
func fromYAML(data []byte) (map[string]any, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(data), MaxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("want an object at the top")
	}
	v, err := fromNode(doc.Content[0], 1)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

func fromNode(n *yaml.Node, depth int) (any, error) {
	bad := func(format string, args ...any) (any, error) {
		return nil, fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
	}
	switch {
	case depth > maxDepth+1:
		return bad("it nests deeper than %d", maxDepth)
	case n.Anchor != "":
		return bad("anchors are not read")
	case n.Style&yaml.TaggedStyle != 0:
		return bad("tags are not read")
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return scalar(n), nil
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, e := range n.Content {
			v, err := fromNode(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		return mapping(n, depth)
	}
	return bad("aliases are not read")
}

func mapping(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0 {
			return nil, fmt.Errorf("line %d: want the name of a member", k.Line)
		}
		if _, ok := out[k.Value]; ok {
			return nil, fmt.Errorf("line %d: member %.80q is there twice", k.Line, k.Value)
		}
		v, err := fromNode(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out[k.Value] = v
	}
	return out, nil
}

func scalar(n *yaml.Node) any {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value
	}
	switch n.Value {
	case "", "null", "~":
		return nil
	case "true":
		return true
	case "false":
		return false
	}
	if isNumber(n.Value) {
		return json.Number(n.Value)
	}
	return n.Value
}

// isNumber says whether s is a JSON number (RFC 8259, section 6).
func isNumber(s string) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i > from
	}
	take := func(letters string) bool {
		if i < len(s) && bytes.IndexByte([]byte(letters), s[i]) >= 0 {
			i++
			return true
		}
		return false
	}
	take("-")
	if !take("0") && !digits() {
		return false
	}
	if take(".") && !digits() {
		return false
	}
	if take("eE") {
		take("+-")
		if !digits() {
			return false
		}
	}
	return i == len(s)
}
