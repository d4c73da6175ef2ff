package mgmt

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// One cluster under two names makes no second entry of a pod: one that is revoked
// would come in by the other name.
func TestAPodIsNoSecondEntryByAnotherNameOfItsCluster(t *testing.T) {
	w := getWorld(t)
	c := w.cluster(t)
	_, token := c.pod()
	n, _, err := w.enrollPod(t, c.ID, token)
	if err != nil {
		t.Fatal(err)
	}
	twin := c.KubeCluster
	twin.ID, twin.Name = mesh.NewKubeID(), c.Name+"-again"
	if twin.Credential, err = w.store.Seal(store.KubeCredentialPlace(twin.ID), mesh.Secret(c.Server.Token)); err != nil {
		t.Fatal(err)
	}
	w.write(t, func(tx *store.Tx) error { return store.Create(tx, w.store.Kubes, twin.ID, twin) })
	refused := func(when string) {
		t.Helper()
		if _, _, err := w.enrollPod(t, twin.ID, token); mesh.Kind(err) != mesh.ErrDenied || !strings.Contains(err.Error(), "already, of cluster") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("let in already")
	call(t, admin.EntryRevoke, w.local(t), admin.RevokeRequest{Ref: n.Identity().ID})
	call(t, admin.EntryRemove, w.local(t), admin.Ref{Ref: n.Identity().ID})
	refused("revoked and removed")
	_, other := c.pod()
	if _, _, err := w.enrollPod(t, twin.ID, other); err != nil {
		t.Errorf("a pod that is new: %v", err)
	}
}

func TestThePlanOfARestoreNamesTheClusters(t *testing.T) {
	w := getWorld(t)
	b, a := w.cluster(t), w.cluster(t)
	raws, _, err := w.store.Export(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var r restoring
	for _, o := range raws {
		if o.Folder == "kubes" && (o.ID == string(a.ID) || o.ID == string(b.ID)) {
			if err := r.note(backup.Object{Folder: o.Folder, ID: o.ID, JSON: o.Value}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := r.plan.Clusters; len(got) != 2 || !strings.Contains(strings.Join(got, " "), a.Name) || !strings.Contains(strings.Join(got, " "), b.Name) {
		t.Errorf("the plan names %q", got)
	}
}
