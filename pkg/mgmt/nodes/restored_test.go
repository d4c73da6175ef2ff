package nodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// D-08: after a restore revisions begin anew, lower than those that a core has
// seen. It still gets the configuration, the table and the revocations of now.
func TestACoreThatSawLaterRevisionsFollowsARestoredMesh(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, quick(), loopback...)
	f, e := n.addCore("c"), n.addEntry("e")
	home := n.runCore(f)
	n.wantState(f, mesh.CoreReady)
	n.waitServed(n.addDevice("before"))
	objects, _, err := n.store.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	n.revoke(e)
	for i := range 40 {
		n.addDevice(fmt.Sprint("after ", i))
	}
	n.waitServed(n.addDevice("last"))
	eventually(t, "the core knows of the revocation", func() bool { return home.Revocations.Check(identity.Peer{Identity: e.id}) != nil })
	seen := n.status(f)
	n.stop()

	again := &network{t: t, ids: n.ids, store: storetest.New(t), server: n.ids.Node(t, mesh.RoleMgmt), member: n.member, cell: n.cell}
	if err := again.store.Import(t.Context(), objects, nil); err != nil {
		t.Fatal(err)
	}
	again.setConfig(func(c *mesh.Config) {
		c.Epoch, c.EpochProof = 2, n.ids.Epoch(t, 2)
		c.Restored = mesh.Restored{At: time.Now(), Epoch: 2, Collect: mesh.Duration(time.Hour)}
	})
	again.start(quick())
	if err := home.State.SetAddresses([]string{again.addr}); err != nil {
		t.Fatal(err)
	}
	// The entry never comes: the core refuses it, so nobody waits for it.
	eventually(t, "it serves", again.collected)
	if it, err := again.store.Entries.Get(t.Context(), mesh.EntryID(e.id.ID)); err != nil || !it.Value.Revoked {
		t.Errorf("the entry is %+v, %v", it.Value, err)
	}
	d := again.addDevice("new")
	again.waitServed(d)
	eventually(t, "the core runs what the restored mesh sent", func() bool {
		st := again.status(f)
		return st.DevicesRev > 0 && st.DevicesRev < seen.DevicesRev && st.ConfigRev > 0 && st.RevokedRev > 0 && st.Failure == ""
	})
}
