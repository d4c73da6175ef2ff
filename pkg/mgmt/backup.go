package mgmt

import (
	"context"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/backups"
	"github.com/meshctl/meshctl/pkg/store"
)

// keepBackups gives backups what they need of this server.
func (r *runtime) keepBackups() {
	r.backups = &backups.Service{
		Store: r.store, Mesh: r.keys.Mesh, Server: r.keys.Server, Office: choresOffice,
		Folder: r.folder.path(dirBackup), Root: r.keys.root.Raw,
		Epoch: r.nodes.Epoch, Keys: r.backedUpKeys, Certify: r.authority.IssueBackup, Scratch: r.scratch,
		Wake: r.foreman.Wake, Log: r.log.With("unit", "backups"),
	}
	r.foreman.Backup = r.backups
}

// backedUpKeys are what a mesh needs beside its objects. Each server's issuer
// and etcd's CA are not among them: a restore makes them anew.
func (r *runtime) backedUpKeys() backup.Keys {
	return backup.Keys{Data: r.store.DataKeys(), SealedRoot: r.keys.rootSealed, Root: ca.MarshalCert(r.keys.root)}
}

// scratch runs use on an etcd in dir that nothing else reaches: its CA is made
// for it, and it listens on loopback alone.
func (r *runtime) scratch(ctx context.Context, dir string, use func(context.Context, *store.Store) error) error {
	k := *r.keys
	var err error
	if k.etcd, err = ca.NewEtcdCA(k.Mesh, r.now()); err != nil {
		return err
	}
	k.cluster, k.forming = "", nil
	f := &folder{dir: dir}
	part, err := newEtcdPart(r.srv.Config, f, &k, r.log.With("unit", "proof"), time.Now)
	if err != nil {
		return err
	}
	part.member.PeerURL, part.member.ClientURL = "https://127.0.0.1:0", "https://127.0.0.1:0"
	part.member.UnsafeNoFsync = true // it is thrown away
	return part.during(ctx, func(ctx context.Context) (err error) {
		endpoints, conf, err := part.client()
		if err != nil {
			return err
		}
		st, err := store.Open(ctx, store.Config{Endpoints: endpoints, TLS: conf, DataKeys: r.store.DataKeys()})
		if err != nil {
			return err
		}
		defer st.Close() // all that counts has been answered
		return use(ctx, st)
	})
}

// during runs the member for as long as use takes.
func (p *etcdPart) during(ctx context.Context, use func(context.Context) error) error {
	ready := make(chan struct{})
	return together(ctx,
		func(ctx context.Context) error { return p.member.Run(ctx, func() { close(ready) }) },
		func(ctx context.Context) error {
			select {
			case <-ready:
				return use(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
}

// judgeBackups names what somebody should look at, as the server that makes the
// backups has written it.
func (r *runtime) judgeBackups(ctx context.Context, problem func(string, ...any)) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	set, err := r.store.Backup.Get(ctx, store.BackupKey)
	if mesh.Kind(err) == mesh.ErrNotFound {
		return
	}
	var st store.Item[mesh.BackupState]
	if err == nil {
		st, err = r.store.BackupState.Get(ctx, store.BackupStateKey)
	}
	if err != nil && mesh.Kind(err) != mesh.ErrNotFound {
		problem("backup: %v", err)
		return
	}
	for _, p := range backups.Problems(st.Value, set.Value) {
		problem("%s", p)
	}
}
