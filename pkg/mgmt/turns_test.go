package mgmt

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A cluster that does not answer takes all of its turns, and none of another's.
func TestTurnsAreOfEachCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		var done []func()
		for range maxTurns {
			d, err := turns.take(t.Context(), "kube-a")
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, d)
		}
		if _, err := turns.take(t.Context(), "kube-a"); mesh.Kind(err) != mesh.ErrUnavailable {
			t.Errorf("one more: %v", err)
		}
		if _, err := turns.take(t.Context(), "kube-b"); err != nil {
			t.Errorf("another cluster: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.take(ended, "kube-a"); mesh.Kind(err) != mesh.ErrUnavailable {
			t.Errorf("whoever no longer waits: %v", err)
		}
		done[0]()
		if _, err := turns.take(t.Context(), "kube-a"); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}
