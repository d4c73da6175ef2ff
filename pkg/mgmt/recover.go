package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/store"
)

// Recovery makes a mesh of one server out of one that survived all the others.
// The server must not run. It works on a copy of etcd's data, which takes the
// place of the original once it is complete.
type Recovery struct {
	Config Config
	// Confirm is shown what would be done; its error ends it, with nothing changed.
	Confirm func(context.Context, RecoveryPlan) error
	Log     *slog.Logger // nil: none

	// step, in tests, ends it where it has got to.
	step func(string) error
}

// RecoveryPlan is what is known before anything is changed.
type RecoveryPlan struct {
	Mesh     mesh.ID
	Server   mesh.Server
	Lost     []mesh.Server // by name
	Revision int64         // of this server's etcd
	Changed  time.Time     // the last change on record here; zero: none
	Rekey    bool          // the data key is being replaced
}

// Run returns the name of the folder that keeps etcd's data from before. It first
// finishes a recovery that was cut off, and does no other then.
func (x *Recovery) Run(ctx context.Context) (aside string, err error) {
	if x.Log == nil {
		x.Log = slog.New(slog.DiscardHandler)
	}
	f, err := openFolder(x.Config.Dir)
	if err != nil {
		return "", err
	}
	defer f.close()
	if err := f.mine("recover"); err != nil {
		return "", err
	}
	var begun recoverFile
	switch has, err := f.has(fileRecover); {
	case err != nil:
		return "", err
	case has:
		if err := f.read(fileRecover, begun.parse); err != nil {
			return "", err
		}
		return begun.Aside, f.finishRecovery(x.step)
	}
	k, err := x.keys(f)
	if err != nil {
		return "", err
	}
	if err := x.prepare(ctx, f, k); err != nil {
		return "", errors.Join(err, f.discardRecovery())
	}
	begun.Aside = asidePrefix + time.Now().UTC().Format("20060102T150405Z")
	if err := f.writeJSON(fileRecover, begun); err != nil {
		return "", err
	}
	return begun.Aside, f.finishRecovery(x.step)
}

func (x *Recovery) keys(f *folder) (*keys, error) {
	for _, file := range []struct {
		name string
		want bool
		text string
	}{
		{fileServer, true, "this server is part of no mesh"},
		{fileFormation, false, "its way into the mesh is not finished"},
		{dirEtcd, true, "etcd's data is not there"},
	} {
		has, err := f.has(file.name)
		if err != nil {
			return nil, err
		}
		if has != file.want {
			return nil, fmt.Errorf("mgmt: recover: %s (%s): %w", file.text, f.path(file.name), mesh.ErrConflict)
		}
	}
	return f.load()
}

// prepare makes recover/etcd complete.
func (x *Recovery) prepare(ctx context.Context, f *folder, k *keys) error {
	part, err := newEtcdPart(x.Config, f, k, x.Log, time.Now)
	if err != nil {
		return err
	}
	m, dir := part.member, f.path(dirRecover)
	m.Dir, m.TLSDir = filepath.Join(dir, dirEtcd), filepath.Join(dir, dirEtcdTLS)
	m.PeerURL, m.ClientURL, m.ForceNew = "https://127.0.0.1:0", "https://127.0.0.1:0", true
	err = f.discardRecovery()
	if err == nil {
		err = copyPrivate(f.path(dirEtcd), m.Dir)
	}
	if err == nil {
		// With the marker the member checks that it is the one that has run here.
		err = copyFile(f.path(dirEtcd)+".member", m.Dir+".member")
	}
	if err != nil {
		return mesh.WithHint(fmt.Errorf("mgmt: recover: copy etcd's data: %w", err), "the data folder needs room for etcd's data once more, and etcd must have run in it")
	}
	err = part.during(ctx, func(ctx context.Context) error { return x.rewrite(ctx, part, f, k) })
	if err != nil {
		return err
	}
	if err := errors.Join(syncTree(m.Dir), syncTree(dir)); err != nil {
		return setupf("", "recover: %w", err)
	}
	return nil
}

// rewrite changes the copy to a mesh of this server alone, once it is confirmed.
func (x *Recovery) rewrite(ctx context.Context, part *etcdPart, f *folder, k *keys) error {
	endpoints, conf, err := part.client()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Config{Endpoints: endpoints, TLS: conf, DataKeys: k.data, Log: x.Log})
	if err != nil {
		return err
	}
	defer st.Close() // all that counts has been answered
	if err := recognise(ctx, st, k); err != nil {
		return err
	}
	c := newCluster(&runtime{srv: &Server{Config: x.Config}, log: x.Log, now: time.Now, folder: f, keys: k, etcd: part, store: st})
	plan, err := c.plan(ctx)
	if err != nil {
		return err
	}
	if err := nobodyAnswers(ctx, plan.Lost, notLost); err != nil {
		return err
	}
	if err := x.Confirm(ctx, plan); err != nil {
		return err
	}
	return c.forget(ctx, plan)
}

func (c *cluster) plan(ctx context.Context) (RecoveryPlan, error) {
	p := RecoveryPlan{Mesh: c.r.keys.Mesh}
	all, err := c.servers(ctx)
	if err != nil {
		return p, err
	}
	for id, s := range all {
		switch {
		case id == c.r.keys.Server:
			p.Server = s
		case s.State != mesh.ServerRemoved:
			p.Lost = append(p.Lost, s)
		}
	}
	slices.SortFunc(p.Lost, func(a, b mesh.Server) int { return cmpNames(a.Name, b.Name) })
	switch {
	case p.Server.State == mesh.ServerRemoved:
		return p, errGone
	case p.Server.State != mesh.ServerMember:
		return p, fmt.Errorf("mgmt: recover: this server is not a member of the mesh: %w", mesh.ErrConflict)
	case len(p.Lost) == 0:
		return p, mesh.WithHint(fmt.Errorf("mgmt: recover: this is the only server of its mesh: %w", mesh.ErrConflict), "start it: meshctl mgmt serve")
	}
	state, err := c.rekeyState(ctx)
	if err == nil {
		_, err = state.keysOf(c.r.keys.data)
	}
	if err != nil {
		return p, err
	}
	p.Rekey = state.underWay()
	status, err := c.r.etcd.status()
	if err != nil {
		return p, err
	}
	last, _, err := c.r.store.Audit.Latest(ctx, "", 1)
	if len(last) > 0 {
		p.Changed = last[0].Value.Time
	}
	p.Revision = status.Revision
	return p, err
}

// forget takes the lost servers off the record like a removal does.
func (c *cluster) forget(ctx context.Context, p RecoveryPlan) error {
	authority, err := ca.New(ca.Config{
		Mesh: c.r.keys.Mesh, Server: c.r.keys.Server, Root: c.r.keys.root, Intermediate: c.r.keys.intermediate,
		Key: c.r.keys.key, Records: c.r.store, Log: c.log,
	})
	if err != nil {
		return setup(err)
	}
	svc := &adminsvc.Service{Store: c.r.store, CA: authority, Servers: serversOf{c}, Mesh: c.r.keys.Mesh, Server: c.r.keys.Server, Log: c.log}
	var lost []mesh.ServerID
	for _, s := range p.Lost {
		lost = append(lost, s.ID)
	}
	ctx = admin.WithCaller(ctx, admin.Caller{Actor: mesh.Actor(fmt.Sprintf("local:%d", os.Getuid())), Role: mesh.AdminOwner})
	return svc.RemoveLost(ctx, lost, "lost; "+p.Server.Name+" goes on alone")
}
