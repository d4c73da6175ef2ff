package mgmt

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/store"
)

// rewrite imports the backup into the etcd of part and makes it the state of a
// mesh of this server alone, in its next epoch.
func (r *restoring) rewrite(ctx context.Context, part *etcdPart, f *folder, k *keys) error {
	endpoints, conf, err := part.client()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Config{Endpoints: endpoints, TLS: conf, DataKeys: k.data, Log: r.Log})
	if err != nil {
		return err
	}
	defer st.Close() // all that counts has been answered
	if err := st.Import(ctx, r.objects(), func(done, all int) { r.tell("importing", done, all) }); err != nil {
		return err
	}
	if err := r.reached("imported"); err != nil {
		return err
	}
	if err := recognise(ctx, st, k); err != nil {
		return err
	}
	r.tell("making it a mesh of this server", 0, 0)
	authority, err := ca.New(ca.Config{
		Mesh: k.Mesh, Server: k.Server, Root: k.root, Intermediate: k.intermediate, Key: k.key, Records: st, Log: r.Log,
	})
	if err != nil {
		return setup(err)
	}
	c := newCluster(&runtime{srv: &Server{Config: r.Config}, log: r.Log, now: time.Now, folder: f, keys: k, etcd: part, store: st})
	svc := &adminsvc.Service{Store: st, CA: authority, Servers: serversOf{c}, Mesh: k.Mesh, Server: k.Server, Log: r.Log}
	ctx = admin.WithCaller(ctx, admin.Caller{Actor: mesh.Actor(fmt.Sprintf("local:%d", os.Getuid())), Role: mesh.AdminOwner})
	if err := r.takeOver(ctx, st, svc); err != nil {
		return err
	}
	if _, err := svc.CancelTokens(ctx); err != nil {
		return err
	}
	return r.reached("rewritten")
}

// takeOver is the change mesh.restore: the epoch, the servers, the CA.
func (r *restoring) takeOver(ctx context.Context, st *store.Store, svc *adminsvc.Service) error {
	blobs, _, err := st.CA.List(ctx)
	if err != nil {
		return err
	}
	var lost []mesh.ServerID
	for _, s := range r.plan.Lost {
		lost = append(lost, s.ID)
	}
	return svc.Restored(ctx, lost, "lost; the mesh was restored from a backup", func(tx *store.Tx) error {
		if err := r.raise(tx, st); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(blobs)) {
			if ofServers(name) {
				if err := store.Delete(tx, st.CA, name); err != nil {
					return err
				}
			}
		}
		issuer := store.Blob{Data: r.files[fileIntermediate], Created: r.made}
		if err := store.Create(tx, st.CA, blobIssuer(r.keys.Server), issuer); err != nil {
			return err
		}
		if err := tx.Accessed(r.source()); err != nil {
			return err
		}
		return tx.Event(mesh.Event{
			Type: mesh.EventMeshRestored, Severity: mesh.Critical, Object: "server/" + string(r.keys.Server), Cause: r.cause(),
			Advice: "grow to three servers: meshctl admin mgmt add NAME; what was changed after the backup was made is not here",
		})
	})
}

// ofServers says whether a blob of the CA is of no use after a restore: what
// servers knew each other by, and how far those that were coming had got.
func ofServers(blob string) bool {
	return slices.Contains([]string{blobFounding, blobGossip, blobGossipNext, blobGossipOld}, blob) || strings.HasPrefix(blob, blobRequest(""))
}

// source names the backup in audit, kind/id.
func (r *restoring) source() string {
	if r.plan.Signer == "" {
		return "unsigned-backup/" + r.From
	}
	return "backup/" + r.From
}

func (r *restoring) cause() string {
	text := fmt.Sprintf("the mesh was restored from the backup %s of %s as epoch %d", r.From, r.plan.Made.UTC().Format(time.RFC3339), r.plan.Epoch)
	if r.plan.Signer == "" {
		text += "; its signature was not asked for"
	}
	return text
}
