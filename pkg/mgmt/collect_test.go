package mgmt

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/relay"
)

// node is a node as it is shipped, but for what it does with what it gets.
type node struct {
	*identity.Node
	revs    *identity.Revocations
	state   *control.State
	configs atomic.Int64
}

func (n *node) Hello(*controlpb.Hello) {}
func (n *node) ApplyConfig(context.Context, *controlpb.Config) error {
	n.configs.Add(1)
	return nil
}
func (n *node) Handle(context.Context, *controlpb.MgmtMessage, control.Send) error { return nil }
func (n *node) Report() *controlpb.Report                                          { return nil }

func newHome(t *testing.T, n *identity.Node, addr string) *node {
	t.Helper()
	revs, err := identity.OpenRevocations(filepath.Join(t.TempDir(), "revocations.json"), n.Roots(), n.Identity().Mesh)
	if err != nil {
		t.Fatal(err)
	}
	state, err := control.OpenState(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := state.SetAddresses([]string{addr}); err != nil {
		t.Fatal(err)
	}
	return &node{Node: n, revs: revs, state: state}
}

// run phones home until hangUp is called.
func (n *node) run(t *testing.T) (hangUp func()) {
	t.Helper()
	home := &control.PhoneHome{
		Node: n.Node, State: n.state, Revocations: n.revs, Role: n, Version: "test", Log: slog.New(slog.DiscardHandler),
		Backoff: control.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := home.Run(ctx); err != nil {
			t.Errorf("phone home: %v", err)
		}
	})
	hangUp = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(hangUp)
	return hangUp
}

// refused are five that were refused after a backup was made.
type refusedFive struct {
	device, member    admin.DeviceView // the second is of a member who was archived
	core, entry, chef *identity.Node
}

// C-07, D-08: five are refused after the backup was made, which is then restored.
// All five are refused before the mesh serves anybody, because its nodes know.
func TestARestoreDoesNotUnrevoke(t *testing.T) {
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	conf.MeshListen, conf.Etcd.PeerListen = freeport.Addr(t), freeport.Addr(t)
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	cc := r.local(t)
	ada, cell := r.home(t)
	bob := call(t, admin.MemberAdd, cc, admin.MemberAddRequest{Name: "Bob"})
	add := func(member, name string) admin.DeviceView {
		return call(t, admin.DeviceAdd, cc, admin.DeviceAddRequest{Member: member, Name: name, Cell: cell})
	}
	five := refusedFive{add(ada, "stolen"), add(string(bob.ID), "bob's"), r.node(t, mesh.RoleCore), r.node(t, mesh.RoleEntry), r.node(t, mesh.RoleAdmin)}
	stays := add(ada, "stays")
	keeper, watcher := newHome(t, r.node(t, mesh.RoleCore), conf.MeshListen), newHome(t, r.node(t, mesh.RoleEntry), conf.MeshListen)
	victim := newHome(t, five.core, conf.MeshListen)
	hangUps := []func(){keeper.run(t), watcher.run(t), victim.run(t)}
	s := r.save(t)

	archived := mesh.MemberArchived
	call(t, admin.DeviceRevoke, cc, admin.RevokeRequest{Ref: string(five.device.ID)})
	call(t, admin.MemberSet, cc, admin.MemberSetRequest{Ref: string(bob.ID), State: &archived})
	call(t, admin.CoreRevoke, cc, admin.RevokeRequest{Ref: five.core.Identity().ID, Ban: true})
	call(t, admin.EntryRevoke, cc, admin.RevokeRequest{Ref: five.entry.Identity().ID})
	call(t, admin.AdminRevoke, cc, admin.RevokeRequest{Ref: five.chef.Identity().ID})
	for _, n := range []*node{keeper, watcher} {
		eventually(t, "the nodes know all five", func() bool { return n.revs.Len() == 5 })
	}
	for _, hangUp := range hangUps {
		hangUp()
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	conf.Dir = filepath.Join(t.TempDir(), "data")
	x := s.restoration(conf)
	x.Collect = mesh.Duration(10 * time.Minute)
	if _, err := x.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = start(conf, new(logBuffer), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { r.stop() }()
	five.servesNobody(t, r, watcher, victim, false)
	resumed := keeper.configs.Load() + 1 // what it runs on its own, at its start
	defer keeper.run(t)()
	eventually(t, "the core has handed over", func() bool { return keeper.revs.Handed() == 2 })
	five.servesNobody(t, r, watcher, victim, true)
	if got := keeper.configs.Load(); got > resumed {
		t.Errorf("the core was given a configuration")
	}
	defer watcher.run(t)()
	eventually(t, "it serves", func() bool { return !r.nodes.Collecting() })
	five.areRefused(t, r)
	eventually(t, "the nodes get their configurations", func() bool { return keeper.configs.Load() > resumed && watcher.configs.Load() > 1 })
	cc = r.local(t)
	if d := call(t, admin.DeviceGet, cc, admin.Ref{Ref: string(stays.ID)}); d.State != mesh.DeviceActive {
		t.Errorf("a device that was not revoked is %s", d.State)
	}
	returned := 0
	for _, a := range call(t, admin.AuditList, cc, admin.AuditListRequest{}).Items {
		if a.Action == "revocation.return" && a.Actor == "system:restore" {
			returned += len(a.Changes)
		}
	}
	if returned != 10 {
		t.Errorf("%d changes on record, want the records and what they stand for", returned)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if r, err = start(conf, new(logBuffer), nil); err != nil {
		t.Fatal(err)
	}
	if r.nodes.Collecting() {
		t.Error("it collects again after a restart")
	}
	five.areRefused(t, r)
}

// servesNobody checks that a mesh which waits for its nodes gives nothing away.
func (f refusedFive) servesNobody(t *testing.T, r *running, entry, victim *node, known bool) {
	t.Helper()
	wants := func(what string, err error) {
		t.Helper()
		// One whom nodes refuse already does not get through the handshake.
		if err == nil || !known && !strings.Contains(err.Error(), "waits for the revocations") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := pb.NewKVClient(as(t, r.addr.Mesh, entry.Node)).Range(t.Context(), &pb.RangeRequest{Key: []byte("/mesh/v1/routes/x.example.net")})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a look-up: %v", err)
	}
	wants("a look-up", err)
	if sess, err := relayTo(t, r.addr.Mesh, entry.Node); err == nil {
		err = refusalOf(t, sess, serviceName)
		if _, spoke := errors.AsType[*relay.RefusedError](err); err == nil || spoke {
			t.Errorf("an entry may bring clients: %v", err)
		}
	}
	for _, n := range []*identity.Node{f.core, f.entry, f.chef} {
		_, err := controlpb.NewRenewalClient(as(t, r.addr.Mesh, n)).Renew(t.Context(), &controlpb.RenewRequest{})
		wants("a renewal", err)
	}
	_, err = admin.StatusGet.Call(t.Context(), as(t, r.addr.Mesh, f.chef), admin.None{})
	wants("an administrator", err)
	got := victim.configs.Load()
	hangUp := victim.run(t)
	eventually(t, "the core is connected", func() bool { return victim.revs.Handed() == 2 })
	hangUp()
	if victim.configs.Load() > got+1 { // what it runs on its own, at its start
		t.Error("a core that was revoked got a configuration")
	}
	if p := call(t, admin.StatusGet, r.local(t), admin.None{}).Server.Problems; !strings.Contains(strings.Join(p, "\n"), "serves nobody yet") {
		t.Errorf("problems %q", p)
	}
}

func (f refusedFive) areRefused(t *testing.T, r *running) {
	t.Helper()
	cc := r.local(t)
	if d := call(t, admin.DeviceGet, cc, admin.Ref{Ref: string(f.device.ID)}); d.State != mesh.DeviceRevoked {
		t.Errorf("the device is %s", d.State)
	}
	if m := call(t, admin.MemberGet, cc, admin.Ref{Ref: "Bob"}); m.State != mesh.MemberArchived {
		t.Errorf("the member is %s", m.State)
	}
	if c := call(t, admin.CoreGet, cc, admin.Ref{Ref: f.core.Identity().ID}); !c.Revoked || !c.Banned || c.State != mesh.CoreRevoked {
		t.Errorf("the core is %+v", c.Core)
	}
	if e := call(t, admin.EntryGet, cc, admin.Ref{Ref: f.entry.Identity().ID}); !e.Revoked || e.Banned {
		t.Errorf("the entry is %+v", e.Entry)
	}
	if a := call(t, admin.AdminGet, cc, admin.Ref{Ref: f.chef.Identity().ID}); !a.Revoked {
		t.Errorf("the administrator is %+v", a)
	}
	for _, n := range []*identity.Node{f.core, f.entry, f.chef} {
		if _, err := renew(t, as(t, r.addr.Mesh, n), n.Identity()); err == nil {
			t.Errorf("%s renewed", n.Identity().Node())
		}
	}
	if _, err := admin.StatusGet.Call(t.Context(), as(t, r.addr.Mesh, f.chef), admin.None{}); err == nil {
		t.Error("an administrator who was revoked is admitted")
	}
}
