package gossip

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// FuzzFacts: what another server tells of itself is whole and printable, or not
// taken.
func FuzzFacts(f *testing.F) {
	full, err := json.Marshal(Facts{
		Server: mesh.NewServerID(), Name: "a", Mesh: mesh.NewID(), Version: "v1", State: "serving", Address: "192.0.2.1:7600",
		Peer: "https://192.0.2.1:2380", Ring: "00ff",
	})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := parseFacts(full); err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parseFacts(b)
		if err != nil {
			return
		}
		if _, err := mesh.ParseServerID(string(x.Server)); err != nil || mesh.CheckName(x.Name) != nil || len(b) > maxFacts {
			t.Errorf("taken: %+v", x)
		}
		if strings.ContainsFunc(x.Name+x.Version+x.State+x.Address+x.Peer+x.Ring+string(x.Mesh), unicode.IsControl) {
			t.Errorf("control characters taken: %+v", x)
		}
	})
}
