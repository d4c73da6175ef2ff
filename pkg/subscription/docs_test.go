package subscription

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheReferenceIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "subscription.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range Formats() {
		want = append(want, string(f))
	}
	for _, r := range builtIn() {
		want = append(want, r.Match)
	}
	want = append(want, reserved()...)
	for _, w := range want {
		if !strings.Contains(string(text), "`"+w+"`") {
			t.Errorf("docs/subscription.md does not have %q", w)
		}
	}
}
