package alert

import (
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// FuzzStep plays any history of causes that come and go. Whatever it is, a step
// taken twice changes nothing, people hear of an end only after its beginning, and
// each alert is in a state that its fields fit.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0x01, 0x01, 0xff, 0x00, 0xff})
	f.Add([]byte{0x03, 0x00, 0x03, 0x00, 0x83, 0x80, 0x07, 0x00})
	f.Fuzz(func(t *testing.T, history []byte) {
		if len(history) > 500 {
			return
		}
		s := newSim(t, mesh.AlertSettings{Mutes: []mesh.AlertMute{{Rule: ServerLost, Until: start.Add(6 * time.Hour)}}})
		all := []Condition{{Rule: CoreLost, Object: "core/a"}, {Rule: ServerLost, Object: "server/a"}, {Rule: "token-reused", Object: "token/a"}}
		open := map[string]bool{}
		for _, b := range history {
			var in Input
			for i, c := range all {
				if b&(1<<i) != 0 {
					in.Conditions = append(in.Conditions, c)
				}
			}
			s.now = s.now.Add(time.Duration(b>>3) * time.Duration(b>>3) * 10 * time.Second)
			for _, c := range s.take(in) {
				id := c.Alert.ID
				if c.Tell == mesh.NoticeResolved && !open[id] {
					t.Errorf("the end of %s is told, and its beginning was not", id)
				}
				open[id] = c.Tell == mesh.NoticeAlert
			}
			for id, a := range s.alerts {
				firing := a.State == mesh.AlertFiring
				if firing && a.Times == 0 || !firing && (!a.Clearing.IsZero() || a.Acknowledged != nil) || a.Changed.After(s.now) || a.Told.After(s.now) {
					t.Errorf("%s: %+v", id, a)
				}
			}
		}
	})
}
