package mgmt

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/identity"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// TestEveryMethodServedIsInTheTable walks what the gRPC server really serves.
func TestEveryMethodServedIsInTheTable(t *testing.T) {
	r := &runtime{keys: &keys{root: identitytest.New(t).Root}, srv: &Server{Config: testConfig("/x")}, etcd: &etcdPart{member: new(embedded.Member)}}
	r.access = newAccess(false, false)
	r.store = lazyStore(t)
	r.nodes = newNodesForTest()
	r.grpc = grpc.NewServer()
	r.register(r.grpc)
	var served []string
	for service, info := range r.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			served = append(served, "/"+service+"/"+m.Name)
		}
	}
	for _, m := range served {
		if _, ok := r.access[m]; !ok {
			t.Errorf("%s is served and not in the table", m)
		}
	}
	for m := range r.access {
		if !slices.Contains(served, m) {
			t.Errorf("%s is in the table and not served", m)
		}
	}
}

// raw passes bytes through, so that one call fits every method.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (raw) Name() string                    { return "proto" }

func rawJSON(m string) string {
	if strings.HasPrefix(m, "/"+admin.Service+"/") {
		return admin.CodecName
	}
	return ""
}

// denied says whether the table (and nothing behind it) refuses the call.
func denied(t *testing.T, cc *grpc.ClientConn, method string) bool {
	t.Helper()
	return deniedIn(t.Context(), t, cc, method)
}

// deniedIn is denied with the metadata of a context.
func deniedIn(ctx context.Context, t *testing.T, cc *grpc.ClientConn, method string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	opts := []grpc.CallOption{grpc.ForceCodec(raw{})}
	if sub := rawJSON(method); sub != "" {
		opts = append(opts, grpc.CallContentSubtype(sub))
	}
	st, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, opts...)
	if err != nil {
		return refusal(t, method, err)
	}
	// No valid request to any method: those who are let in are refused by it.
	garbage := []byte{0xff}
	if rawJSON(method) != "" {
		garbage = []byte("{}")
	}
	if err := st.SendMsg(&garbage); err != nil {
		t.Logf("%s: send: %v", method, err) // the answer follows
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	return refusal(t, method, st.RecvMsg(&got))
}

func refusal(t *testing.T, method string, err error) bool {
	t.Helper()
	s := status.Convert(err)
	switch s.Code() {
	case codes.PermissionDenied:
		return strings.HasPrefix(s.Message(), "mgmt: ")
	case codes.Unavailable, codes.DeadlineExceeded:
		t.Errorf("%s: %v", method, err)
	}
	return false
}

// TestEveryRoleAtEveryDoor calls every method as everyone at every door of two
// servers' worth of tables, over real TLS, and compares with what the table says.
func TestEveryRoleAtEveryDoor(t *testing.T) {
	w := getWorld(t)
	table := newAccess(false, false)
	root := w.token(t, mesh.RoleEntry).RootHash
	callers := map[kind]*grpc.ClientConn{
		kindNobody: stranger(t, w.addr.Mesh, root),
		kindLocal:  w.local(t),
		kindAux:    w.child(t),
	}
	for _, role := range []mesh.Role{mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin} {
		callers[kind(role)] = as(t, w.addr.Mesh, w.node(t, role))
	}
	methods := []string{"/meshctl.v1.Admin/Nothing", "/meshctl.v1.Nothing/Nothing", "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Cluster/MemberList", "/etcdserverpb.Maintenance/Snapshot", "/etcdserverpb.Auth/AuthDisable"}
	for m := range table {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	for k, cc := range callers {
		d := doorMesh
		switch k {
		case kindLocal:
			d = doorSocket
		case kindAux:
			d = doorAux
		}
		for _, m := range methods {
			_, err := table.decide(m, d, k, false)
			admitted := err == nil
			// An operator is an administrator, and not everything is open to one.
			if k == kindAdmin && admitted && table[m].need != "" && table[m].permits(m, mesh.AdminOperator) != nil {
				admitted = false
			}
			// For nobody in particular the bot can do nothing.
			if k == kindAux && table[m].bot.Standing != "" {
				admitted = false
			}
			if got := !denied(t, cc, m); got != admitted {
				t.Errorf("%s as %s at %s: admitted %v, want %v", m, k, d, got, admitted)
			}
		}
	}
}

func TestServicesWithADoorOfTheirOwnAreAbsentFromTheMeshPort(t *testing.T) {
	t.Parallel()
	conf := testConfig(filepath.Join(t.TempDir(), "data"))
	conf.AdminListen, conf.GatewayListen = "127.0.0.1:0", "127.0.0.1:0"
	r, err := start(conf, new(logBuffer), givePassphrase)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}()
	entry, adm := r.node(t, mesh.RoleEntry), r.node(t, mesh.RoleAdmin)
	for _, c := range []struct {
		node   *identity.Node
		addr   string
		method string
		want   bool
	}{
		{entry, r.addr.Mesh, methodRange, false},
		{entry, r.addr.Gateway, methodRange, true},
		{entry, r.addr.Gateway, methodRenew, false},
		{adm, r.addr.Mesh, admin.MemberList.FullName(), false},
		{adm, r.addr.Admin, admin.MemberList.FullName(), true},
		{adm, r.addr.Admin, methodRenew, false},
		{adm, r.addr.Mesh, methodRenew, true},
	} {
		if got := !denied(t, as(t, c.addr, c.node), c.method); got != c.want {
			t.Errorf("%s as %s at %s: admitted %v, want %v", c.method, c.node.Identity().Role, c.addr, got, c.want)
		}
	}
	for _, c := range []struct {
		node *identity.Node
		addr string
	}{{entry, r.addr.Admin}, {adm, r.addr.Gateway}} {
		_, err := admin.MemberList.Call(t.Context(), as(t, c.addr, c.node), admin.Page{})
		if err == nil {
			t.Errorf("%s is let in at %s", c.node.Identity().Role, c.addr)
		}
	}
}

// Other anchors admit nobody: a certificate of etcd's CA, of a cell's CA, of
// another mesh, of this mesh's root but for a CA.
func TestOtherAnchorsAdmitNobody(t *testing.T) {
	w := getWorld(t)
	other := identitytest.New(t)
	cc := newClient(t, "passthrough:///"+w.addr.Mesh, insecure.NewCredentials())
	if _, err := admin.MemberList.Call(t.Context(), cc, admin.Page{}); err == nil {
		t.Error("a client without TLS is let in")
	}
	for _, role := range []mesh.Role{mesh.RoleMgmt, mesh.RoleCore, mesh.RoleEntry, mesh.RoleAdmin} {
		conf := other.Node(t, role).ClientTLS(mesh.Identity{}, nil, identity.ProtoGRPC)
		conf.VerifyConnection = nil // whoever attacks does not check the server
		cc := newClient(t, "passthrough:///"+w.addr.Mesh, tlsCreds(conf))
		if _, err := admin.MemberList.Call(t.Context(), cc, admin.Page{}); err == nil {
			t.Errorf("a %s of another mesh is let in", role)
		}
	}
}
