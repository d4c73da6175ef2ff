package backup

import "strings"

// What tests outside the package look at.
var (
	ToYAML         = toYAML
	FromYAML       = fromYAML
	ParseJSON      = parseJSON
	NewProtectedAt = newProtected
	PathOf         = pathOf
	Readme         = readme
	Sign           = sign
	OpenFile       = open
)

// ReencodeShard parses the index of a shard and writes it again.
func ReencodeShard(data []byte) ([]byte, error) {
	s, err := parseShard(data)
	return s.encode(), err
}

// ReencodeFolderIndex parses the index of a folder and writes it again.
func ReencodeFolderIndex(data []byte) ([]byte, error) {
	f, err := parseFolderIndex(data)
	return f.encode(), err
}

// ReencodeAuditIndex parses index/audit.yaml and writes it again.
func ReencodeAuditIndex(data []byte) ([]byte, error) {
	a, err := parseAuditIndex(data)
	if err != nil {
		return nil, err
	}
	return a.encode()
}

// ReencodeSegment parses an audit segment and writes it again.
func ReencodeSegment(data []byte) ([]byte, error) {
	s, err := parseSegment(data)
	if err != nil {
		return nil, err
	}
	return s.encode()
}

// Encode writes a manifest.
func (m *Manifest) Encode() ([]byte, error) { return m.encode() }

// Split parts an object.
func Split(folder string, object map[string]any, plaintext bool) (open, closed map[string]any) {
	return ruleOf(folder).split(object, plaintext)
}

// Merge puts an object together.
func Merge(open, closed map[string]any) string { return merge(open, closed) }

// EncodeJSON writes a JSON value in its one form.
func EncodeJSON(v any) []byte { return appendJSON(nil, v) }

// MaxSegment bounds a segment.
const MaxSegment = maxSegment

// Named are the members of a folder that have a place.
func Named(folder string) []string {
	f := folders[folder]
	return append(strings.Fields(f.public), strings.Fields(f.personal)...)
}

// SealFor encrypts a file of a backup.
func SealFor(s State, plain []byte) ([]byte, error) {
	to, err := audienceOf(s)
	if err != nil {
		return nil, err
	}
	return to.seal(plain)
}
