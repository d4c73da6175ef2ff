package gateway

import (
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// D-07: an entry that is wrong although the store did not change since is
// repaired by the comparison, and reported.
func TestAWrongTargetIsRepairedByTheNextComparison(t *testing.T) {
	right := mesh.Target{ID: "core-x", State: mesh.CoreReady}
	tb := table{known: map[string]*known{}, wake: make(chan struct{}, 1)}
	tb.learn(right.ID, right, true, moment{1, 7}, true)
	tb.known[right.ID].target.State = mesh.CoreRevoked // the seed
	tb.learn(right.ID, right, true, moment{1, 7}, false)
	if got := tb.last([]string{right.ID})[right.ID]; got.State != mesh.CoreReady {
		t.Errorf("after the comparison it is %s", got.State)
	}
	if ch := tb.changes(); len(ch) != 1 || ch[0].target.State != mesh.CoreReady {
		t.Errorf("reported %+v", ch)
	}
	tb.learn(right.ID, mesh.Target{}, false, moment{1, 6}, false)
	if ch := tb.changes(); len(ch) != 0 {
		t.Errorf("older news was reported: %+v", ch)
	}
}
