package mesh

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"alice", "Alina", "bob", "a.b", "quota"}
	for ref, want := range map[string][]string{
		"alise": {"alice"}, "qouta": {"quota"}, "alin": {"Alina"}, "ALICE": {"alice"}, "al": nil, "bo": {"bob"}, "": nil, "ab": {"a.b"},
		strings.Repeat("a", 101): nil,
	} {
		if got := Nearest(ref, names); !slices.Equal(got, want) {
			t.Errorf("Nearest(%q) = %q, want %q", ref, got, want)
		}
	}
}
