package mgmt

import (
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// door is where a call came in.
type door string

// The doors of a server. The gateway's and the administrators' exist only when
// they are configured; those services are then absent from the mesh port.
const (
	doorMesh    door = "mesh"
	doorGateway door = "gateway"
	doorAdmin   door = "admin"
	doorSocket  door = "socket"
	// doorAux is the socket that this server's child process was born with.
	doorAux door = "aux"
)

// kind is what a caller is, as far as permission goes: the role of its
// certificate, nobody, or a user of this machine.
type kind string

const (
	kindNobody kind = "nobody"
	kindLocal  kind = "local"
	kindAux    kind = "aux" // this server's child process
	kindMgmt   kind = kind(mesh.RoleMgmt)
	kindCore   kind = kind(mesh.RoleCore)
	kindEntry  kind = kind(mesh.RoleEntry)
	kindAdmin  kind = kind(mesh.RoleAdmin)
)

// rule says who may call one method, and where.
type rule struct {
	doors []door
	kinds []kind
	// need is the least role of an administrator; "" where none calls.
	need mesh.AdminRole
	// bot says when the bot may call it for somebody; without a standing: never.
	bot admin.BotRule
	// expired admits a certificate past its end, as far as the port let it in.
	expired bool
	// collects: it is served also while a restored mesh waits for its nodes.
	collects bool
}

// access is the one table of permissions: method → who. What is not in it is
// denied to everyone.
type access map[string]rule

// newAccess makes the table for a server with or without a gateway and
// administrators' port of their own.
func newAccess(gatewayDoor, adminDoor bool) access {
	own := func(has bool, d door) []door {
		if has {
			return []door{d}
		}
		return []door{doorMesh}
	}
	t := access{
		controlpb.Enrollment_Enroll_FullMethodName:   {doors: []door{doorMesh}, kinds: []kind{kindNobody}},
		controlpb.Renewal_Renew_FullMethodName:       {doors: []door{doorMesh}, kinds: []kind{kindMgmt, kindCore, kindEntry, kindAdmin}, expired: true},
		controlpb.Cluster_Promise_FullMethodName:     {doors: []door{doorMesh}, kinds: []kind{kindNobody}},
		controlpb.Cluster_Join_FullMethodName:        {doors: []door{doorMesh}, kinds: []kind{kindNobody, kindMgmt}, collects: true},
		controlpb.Cluster_MoveLeader_FullMethodName:  {doors: []door{doorMesh}, kinds: []kind{kindMgmt}, collects: true},
		controlpb.Cluster_Rekey_FullMethodName:       {doors: []door{doorMesh}, kinds: []kind{kindMgmt}, collects: true},
		controlpb.NodeControl_Connect_FullMethodName: {doors: []door{doorMesh}, kinds: []kind{kindCore, kindEntry}, collects: true},
		controlpb.Chores_Orders_FullMethodName:       {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Report_FullMethodName:       {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Draft_FullMethodName:        {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Allow_FullMethodName:        {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Proof_FullMethodName:        {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Notices_FullMethodName:      {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Sent_FullMethodName:         {doors: []door{doorAux}, kinds: []kind{kindAux}},
		controlpb.Chores_Answer_FullMethodName:       {doors: []door{doorAux}, kinds: []kind{kindAux}},
	}
	gateway := own(gatewayDoor, doorGateway)
	for _, m := range []string{"/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn", "/etcdserverpb.Watch/Watch"} {
		t[m] = rule{doors: gateway, kinds: []kind{kindEntry}}
	}
	for _, m := range []string{"/etcdserverpb.KV/RangeStream", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/DeleteRange", "/etcdserverpb.KV/Compact"} {
		t[m] = rule{doors: gateway} // of the etcd API, and open to nobody
	}
	for m, need := range admin.Table() {
		t[m] = rule{doors: append(own(adminDoor, doorAdmin), doorSocket), kinds: []kind{kindAdmin, kindLocal}, need: need}
	}
	for m, bot := range admin.BotTable() {
		r := t[m]
		r.doors, r.kinds, r.bot = append(r.doors, doorAux), append(r.kinds, kindAux), bot
		t[m] = r
	}
	return t
}

// decide returns the rule that admits the caller, or ErrDenied. Whether an
// administrator's role suffices is decided by permits, with the role of now.
func (a access) decide(method string, d door, k kind, expired bool) (rule, error) {
	r, ok := a[method]
	switch {
	case !ok || !slices.Contains(r.doors, d) || (k == kindLocal) != (d == doorSocket) || (k == kindAux) != (d == doorAux):
		return rule{}, fmt.Errorf("mgmt: call %s: not served here: %w", mesh.Quotable(method), mesh.ErrDenied)
	case k == kindNobody && !slices.Contains(r.kinds, k):
		return rule{}, mesh.WithHint(fmt.Errorf("mgmt: call %s: it needs a client certificate: %w", method, mesh.ErrDenied), "join with a token first")
	case !slices.Contains(r.kinds, k):
		return rule{}, fmt.Errorf("mgmt: call %s: not open to %s: %w", method, k, mesh.ErrDenied)
	case expired && !r.expired:
		return rule{}, mesh.WithHint(fmt.Errorf("mgmt: call %s: the certificate has expired: %w", method, mesh.ErrDenied), "renew it, or join again with a new token")
	}
	return r, nil
}

// permits says whether an administrator of that role may call the method.
func (r rule) permits(method string, role mesh.AdminRole) error {
	if role.Includes(r.need) {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("mgmt: call %s: it needs the role %s, the caller has %s: %w", method, r.need, role, mesh.ErrDenied),
		"an owner can change roles: meshctl admin administrator set NAME --role "+string(r.need))
}
