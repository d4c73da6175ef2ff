package backup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// entry is what the index says of an object's files.
type entry struct {
	open   string // SHA-256 of the .yaml
	closed string // SHA-256 of the .age; "" when there is none
	// plain is the keyed digest of what the .age holds, by which its writer knows
	// whether it has to write it anew.
	plain   string
	partial bool // there would be an .age, had there been a recipient
}

// shard is the index of a part of a folder, by id.
type shard map[string]entry

// plainLen is the length of a keyed digest in hexadecimal: 128 bits.
const plainLen = 32

// encode writes a line for each object: id, digest of the .yaml, and of the .age
// and what is in it, if there is one. That is YAML, and git diff shows which
// objects changed.
func (s shard) encode() []byte {
	var b bytes.Buffer
	for _, id := range slices.Sorted(maps.Keys(s)) {
		e := s[id]
		fmt.Fprintf(&b, "%s: %s", id, e.open)
		switch {
		case e.closed != "":
			fmt.Fprintf(&b, " %s %s", e.closed, e.plain)
		case e.partial:
			b.WriteString(" partial")
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// parseShard reads what encode wrote, and nothing else.
func parseShard(data []byte) (shard, error) {
	s := make(shard)
	err := eachLine(data, func(id, rest string) error {
		if !validID(id) {
			return errors.New("want an id")
		}
		f := strings.Split(rest, " ")
		e := entry{open: f[0]}
		switch {
		case !isDigest(e.open):
			return errors.New("want a SHA-256")
		case len(f) == 2 && f[1] == "partial":
			e.partial = true
		case len(f) == 3 && isDigest(f[1]) && isHex(f[2], plainLen):
			e.closed, e.plain = f[1], f[2]
		case len(f) != 1:
			return errors.New("want digests of the encrypted part")
		}
		s[id] = e
		return nil
	})
	return s, err
}

// folderIndex holds the SHA-256 of the shards of a folder.
type folderIndex map[string]string

func (f folderIndex) encode() []byte {
	var b bytes.Buffer
	for _, shard := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&b, "%q: %s\n", shard, f[shard])
	}
	return b.Bytes()
}

func parseFolderIndex(data []byte) (folderIndex, error) {
	f := make(folderIndex)
	err := eachLine(data, func(name, sum string) error {
		shard := strings.Trim(name, `"`)
		if len(name) != 4 || name != `"`+shard+`"` || !isHex(shard, 2) || shard >= "40" || !isDigest(sum) {
			return errors.New("want a shard and a SHA-256")
		}
		f[shard] = sum
		return nil
	})
	return f, err
}

// eachLine takes "key: value" apart, and wants the keys to rise.
func eachLine(data []byte, f func(key, value string) error) error {
	last, n := "", 0
	if len(data) > MaxFile {
		return fmt.Errorf("%d bytes: want at most %d", len(data), MaxFile)
	}
	for line := range strings.Lines(string(data)) {
		n++
		text, ended := strings.CutSuffix(line, "\n")
		key, value, ok := strings.Cut(text, ": ")
		if !ended || !ok || key <= last {
			return fmt.Errorf("line %d: want a key above the one before, a value and an end", n)
		}
		if err := f(key, value); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		last = key
	}
	return nil
}
