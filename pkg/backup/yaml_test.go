package backup_test

import (
	"bytes"
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
