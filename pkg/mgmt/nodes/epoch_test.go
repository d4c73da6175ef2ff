package nodes

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (n *network) setConfig(f func(*mesh.Config)) {
	n.t.Helper()
	n.change(func(tx *store.Tx) error {
		return store.Update(tx, n.store.Config, store.ConfigKey, func(c *mesh.Config) error { f(c); return nil })
	})
}

// Whoever has the disk of a server can write the number of the epoch; that would
// lock every node out if it were believed.
func TestAnEpochOfTheStateIsTheRootsOrNone(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	welcome := func() (int64, mesh.SignedEpoch) {
		l := f.sayHello()
		w := l.next().GetWelcome()
		if w == nil {
			t.Fatal(l.end)
		}
		l.hangUp()
		f.hello.Boot++
		return w.GetMeshEpoch(), control.SignedEpochOf(w.GetEpochProof())
	}
	if e, proof := welcome(); e != 1 || !proof.IsZero() {
		t.Errorf("founded long ago: epoch %d, %v", e, proof)
	}
	n.setConfig(func(c *mesh.Config) { c.Epoch = 9 })
	eventually(t, "told of", func() bool { return len(n.events(mesh.EventEpochForged, "config/mesh")) == 1 })
	if e, _ := welcome(); e != 1 {
		t.Errorf("a number without a word: epoch %d", e)
	}
	pretender := identitytest.NewWithID(t, n.ids.ID)
	n.setConfig(func(c *mesh.Config) { c.EpochProof = pretender.Epoch(t, 9) })
	if e, _ := welcome(); e != 1 {
		t.Errorf("with another root's word: epoch %d", e)
	}
	proof := n.ids.Epoch(t, 2)
	n.setConfig(func(c *mesh.Config) { c.Epoch, c.EpochProof = 2, proof })
	eventually(t, "the root's word counts", func() bool { return n.svc.Epoch() == 2 })
	if e, got := welcome(); e != 2 || !got.Equal(proof) {
		t.Errorf("epoch %d", e)
	}
	n.setConfig(func(c *mesh.Config) { c.Epoch, c.EpochProof = 1, mesh.SignedEpoch{} })
	n.svc.wakes.epoch.nudge()
	if e, got := welcome(); e != 2 || !got.Equal(proof) {
		t.Errorf("it went back to epoch %d", e)
	}
}

// The mesh was restored elsewhere: a server of before hears of it by the first
// node that comes to it, and is not made to stop by a word that is not the root's.
func TestANodeBringsTheNewsOfALaterEpoch(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick())
	f := n.addEntry("e")
	var told atomic.Int64
	n.stop()
	n.superseded = func(mesh.SignedEpoch) { told.Add(1) }
	n.start(quick())
	pretender := identitytest.NewWithID(t, n.ids.ID)
	f.hello.MeshEpoch = 3
	f.hello.EpochProof = control.SignedEpochMessage(pretender.Epoch(t, 3))
	f.sayHello().wantEnd(codes.PermissionDenied, "root")
	f.hello.EpochProof = control.SignedEpochMessage(n.ids.Epoch(t, 1))
	f.greet().hangUp() // it refuses the welcome by itself
	if told.Load() != 0 {
		t.Fatal("believed")
	}
	f.hello.Boot++
	f.hello.EpochProof = control.SignedEpochMessage(n.ids.Epoch(t, 3))
	f.sayHello().wantEnd(codes.FailedPrecondition, "the mesh is in 3")
	if told.Load() != 1 {
		t.Errorf("told %d times", told.Load())
	}
}
