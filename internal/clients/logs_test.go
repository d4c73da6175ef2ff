//go:build clients

package clients

import (
	"io"
	"os"
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
)

// maxLog is how much of a log is shown.
const maxLog = 16 << 10

// logsOnFailure shows, when the test has failed, what the nodes logged during it.
func logsOnFailure(t *testing.T, m *dev.Mesh) {
	t.Helper()
	begin := map[string]int64{}
	nodes := append(append([]*dev.Process{}, m.Cores...), m.Entries...)
	for _, p := range nodes {
		if info, err := os.Stat(p.Log); err == nil {
			begin[p.Name] = info.Size()
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, p := range nodes {
			t.Logf("%s:\n%s", p.Name, logFrom(p.Log, begin[p.Name]))
		}
	})
}

func logFrom(file string, from int64) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLog):])
}
