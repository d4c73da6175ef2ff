package cmd

import (
	"bytes"
	"strings"
	"testing"
)

// What pods are rendered with is what the entry reads, key by key.
func TestTheConfigurationOfPodsIsOneOfEntries(t *testing.T) {
	for _, dir := range []string{"entry", "example"} {
		var out bytes.Buffer
		args := []string{"entry", "run", "--check", "--config", "../deploy/kubernetes/" + dir + "/entry.yaml"}
		if code := Main(args, strings.NewReader(""), &out, &out); code != exitOK {
			t.Errorf("%s: ended with %d: %s", dir, code, out.String())
		}
	}
}
