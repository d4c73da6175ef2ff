package adminsvc

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhatRanIsKeptHoweverManyFail(t *testing.T) {
	for ran, first := range map[int64]int64{0: 6, 1: 1, 3: 3, 15: 6} {
		var all []mesh.EntryRelease
		for n := range int64(15) {
			all = kept(append(all, mesh.EntryRelease{Number: n + 1}), ran)
		}
		if len(all) != mesh.MaxReleases || all[0].Number != first || all[len(all)-1].Number != 15 {
			t.Errorf("when %d ran: %d to %d, %d of them", ran, all[0].Number, all[len(all)-1].Number, len(all))
		}
	}
}
