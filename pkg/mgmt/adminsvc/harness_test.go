package adminsvc

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/storetest"
)

// fakeCA signs nothing that anybody checks here.
type fakeCA struct{ lists [][]ca.RevokedCert }

func (*fakeCA) SignRevocation(r mesh.Revocation) (mesh.SignedRevocation, error) {
	payload, err := json.Marshal(r)
	return mesh.SignedRevocation{Record: r, Payload: payload, Signature: []byte("signed"), Signer: []byte("signer")}, err
}

func (f *fakeCA) CRL(_ *big.Int, revoked []ca.RevokedCert, _, _ time.Time) ([]byte, error) {
	f.lists = append(f.lists, revoked)
	return []byte("list"), nil
}

// rig is a service on a real store.
type rig struct {
	*Service
	ca *fakeCA
	t  *testing.T
}

func newRig(t *testing.T) *rig {
	t.Helper()
	authority := &fakeCA{}
	r := &rig{t: t, ca: authority, Service: &Service{
		Store: storetest.New(t), CA: authority, Mesh: mesh.NewID(), Server: mesh.NewServerID(), Version: "v1",
		RootHash: sha256.Sum256([]byte("root")), Log: slog.New(slog.DiscardHandler),
		ServerStatus: func(context.Context) (admin.ServerStatus, error) {
			return admin.ServerStatus{Name: "m1", Etcd: admin.EtcdStatus{Members: 1, Quota: 100, BytesUsed: 90}}, nil
		},
	}}
	r.WaitServed = r.reconcile
	cfg := mesh.DefaultConfig()
	cfg.MgmtAddresses = []string{"mgmt.example.net:8443"}
	cfg.EntryAddresses = []string{"192.0.2.1:443"}
	r.write("mesh.found", func(tx *store.Tx) error { return store.Create(tx, r.Store.Config, store.ConfigKey, cfg) })
	return r
}

func (r *rig) write(action string, fn func(*store.Tx) error) {
	r.t.Helper()
	if _, err := r.Store.Change(r.t.Context(), store.By{Actor: "system:test"}, action, fn); err != nil {
		r.t.Fatal(err)
	}
}

// reconcile stands for node control: cores acknowledge, then routes are written.
func (r *rig) reconcile(ctx context.Context, _ mesh.DeviceID) error {
	_, err := r.Store.ReconcileRoutes(ctx, r.now())
	return err
}

// as is a context of an administrator with that role.
func (r *rig) as(role mesh.AdminRole) context.Context {
	return admin.WithCaller(r.t.Context(), admin.Caller{Actor: "admin:test", Role: role, Request: "req-1"})
}

func (r *rig) ctx() context.Context { return r.as(mesh.AdminOwner) }

// must returns v or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (hint: %s)", err, mesh.Hint(err))
		}
		return v
	}
}

func (r *rig) member(name string) admin.MemberView {
	return must(r.memberAdd(r.ctx(), admin.MemberAddRequest{Name: name}))(r.t)
}

func (r *rig) cell(name, suffix string) admin.CellView {
	return must(r.cellAdd(r.ctx(), admin.CellAddRequest{Name: name, Suffix: suffix}))(r.t)
}

// core makes a core that is ready and has acknowledged everything there is and
// will be.
func (r *rig) core(name string, m mesh.MemberID, c mesh.CellID) mesh.Core {
	core := mesh.Core{ID: mesh.NewCoreID(), Name: name, Member: m, Cell: c, State: mesh.CoreReady, EverReady: true}
	node := "core/" + string(core.ID)
	r.write("core.join", func(tx *store.Tx) error {
		st := mesh.NodeStatus{Node: node, Connected: true, DevicesRev: 1 << 40}
		cert := mesh.CertRecord{Serial: big.NewInt(time.Now().UnixNano()).String(), Node: node, Issuer: string(r.Server),
			Issued: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(200 * 24 * time.Hour)}
		return errors.Join(store.Create(tx, r.Store.Cores, core.ID, core), store.Create(tx, r.Store.Status, node, st),
			store.Create(tx, r.Store.Certs, cert.Serial, cert),
			store.Create(tx, r.Store.Targets, string(core.ID), mesh.TargetOf(r.Mesh, core, "meshctl-relay/1")))
	})
	return core
}

func (r *rig) device(member, name, cell string) admin.DeviceView {
	return must(r.deviceAdd(r.ctx(), admin.DeviceAddRequest{Member: member, Name: name, Cell: cell}))(r.t)
}

func (r *rig) audits() []mesh.AuditRecord {
	return must(r.auditList(r.ctx(), admin.AuditListRequest{}))(r.t).Items
}

// refused checks the kind of an error and that it says what it should.
func refused(t *testing.T, err, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error()+" / "+mesh.Hint(err), says) {
		t.Errorf("got error %v (hint: %s), want %v that says %q", err, mesh.Hint(err), kind, says)
	}
}
