package client

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzWatched reads objects as a stranger's API may send them: whatever they are,
// nothing panics, and what is reported can be printed.
func FuzzWatched(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(data) != nil {
			return
		}
		whose := owner{theMesh, cluster}
		whose.has(u)
		epochOf(u)
		owned(u, manager)
		figuresOf(u)
		balancerOf(u)
		portOf(u, "nodePort")
		sharesNumber(wanted{Unstructured: u}, u)
		p := podOf(u)
		if !utf8.ValidString(p.Reason) || strings.ContainsAny(p.Reason, "\x1b\x00\r") || len(p.Reason) > 300 {
			t.Errorf("reason %q", p.Reason)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
		if _, err := diff(u, nil); err != nil {
			t.Error(err)
		}
	})
}

// FuzzDiff: the edits of a diff make the one into the other.
func FuzzDiff(f *testing.F) {
	f.Fuzz(func(t *testing.T, a, b string) {
		from, to := strings.Split(a, "\n"), strings.Split(b, "\n")
		var was, is []string
		for _, e := range edits(from, to) {
			if e.op != '+' {
				was = append(was, e.line)
			}
			if e.op != '-' {
				is = append(is, e.line)
			}
		}
		if !slices.Equal(was, from) || !slices.Equal(is, to) {
			t.Errorf("%q and %q became %q and %q", from, to, was, is)
		}
		if got := unified(from, to); (got == "") != slices.Equal(from, to) {
			t.Errorf("a diff of %q and %q: %q", from, to, got)
		}
	})
}

// What a cluster warns of is printable and bounded, whatever it answers.
func FuzzLastWarning(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		if text := lastWarning(body); len(text) > 600 || text != printable(text, 600) {
			t.Errorf("it says %q", text)
		}
	})
}
