package backups_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// TestAProofWaitsForOneThatWasCalledOff: the child has begun anew meanwhile, and
// takes what it handed over for proven.
func TestAProofWaitsForOneThatWasCalledOff(t *testing.T) {
	w := newWorld(t)
	w.member("Mila")
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	inside, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.Scratch = func(ctx context.Context, dir string, use func(context.Context, *store.Store) error) error {
		first.Do(func() {
			close(inside)
			<-release
		})
		return w.scratch(ctx, dir, use)
	}
	p := chores.BackupProof{Epoch: s.Order().Epoch, Remote: "r", Commit: w.head}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Prove(ctx, p, w.tree) })
	<-inside
	cancel()
	wg.Go(func() { s.Prove(t.Context(), p, w.tree) })
	close(release)
	wg.Wait()
	w.state("a good proof", func(st mesh.BackupState) bool { return !st.Proof.At.IsZero() && st.Proof.Problem == "" })
}

// TestATimeThatIsYetToComeHoldsNoProofUp: it is of a server whose clock was wrong.
func TestATimeThatIsYetToComeHoldsNoProofUp(t *testing.T) {
	w := newWorld(t)
	w.member("Mila")
	if _, err := w.st.Update(t.Context(), func(tx *store.Tx) error {
		proof := mesh.BackupProofState{Commit: strings.Repeat("0", 40), At: time.Now().UTC().AddDate(1, 0, 0)}
		return store.Create(tx, w.st.BackupState, store.BackupStateKey, mesh.BackupState{Proof: proof})
	}); err != nil {
		t.Fatal(err)
	}
	s := w.server()
	w.mustRound(s, s.due(t, 0))
	until(t, "an order to prove", func() (uint64, bool) { o := s.Order(); return o.Prove, o.Prove > 0 })
}
