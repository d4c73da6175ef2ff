package backup_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/backup"
)

func roundTrip(t *testing.T, v map[string]any) {
	t.Helper()
	text := backup.ToYAML(v)
	back, err := backup.FromYAML(text)
	if err != nil {
		t.Fatalf("%v\n%.3000q\n%.3000s", err, text, text)
	}
	if !bytes.Equal(backup.EncodeJSON(v), backup.EncodeJSON(back)) {
		t.Fatalf("got  %.3000s\nwant %.3000s\n%.3000s", backup.EncodeJSON(back), backup.EncodeJSON(v), text)
	}
	if again := backup.ToYAML(back); !bytes.Equal(again, text) {
		t.Fatalf("written again: %.3000s\nwant %.3000s", again, text)
	}
}

func TestYAMLIsLossless(t *testing.T) {
	for seed := range uint64(1500) {
		g := newGenerator(seed)
		roundTrip(t, g.stored("x"))
	}
}

// TestTheLargestObjects stay below the bound of files, however they are made.
func TestTheLargestObjects(t *testing.T) {
	const size = backup.MaxObject - 200
	for name, c := range map[string]string{
		"what has to be escaped": `{"a":"` + strings.Repeat("\x7f", size) + `"}`,
		"a long list":            `{"a":{"b":{"c":{"d":[` + strings.Repeat("1,", size/2) + `1]}}}}`,
		"many members":           `{"a":{` + strings.Join(numbered(size/12), ",") + `}}`,
		"deep":                   strings.Repeat(`{"a":[`, 250) + `"` + strings.Repeat("x", size-4000) + `"` + strings.Repeat(`]}`, 250),
	} {
		v, err := backup.ParseJSON([]byte(c))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := backup.ToYAML(v)
		if len(text) > backup.MaxFile {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		roundTrip(t, v)
	}
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`"%06d":%d`, i, i%10)
	}
	return out
}
