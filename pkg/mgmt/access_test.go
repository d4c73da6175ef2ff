package mgmt

import (
	"fmt"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	methodEnroll  = controlpb.Enrollment_Enroll_FullMethodName
	methodRenew   = controlpb.Renewal_Renew_FullMethodName
	methodConnect = controlpb.NodeControl_Connect_FullMethodName
	methodRange   = "/etcdserverpb.KV/Range"
	methodTxn     = "/etcdserverpb.KV/Txn"
	methodWatch   = "/etcdserverpb.Watch/Watch"
)

var (
	allDoors = []door{doorMesh, doorGateway, doorAdmin, doorSocket, doorAux}
	allKinds = []kind{kindNobody, kindLocal, kindAux, kindMgmt, kindCore, kindEntry, kindAdmin}
)

// TestEveryCellOfTheTable states who may call what where a second time, by
// hand, and compares every combination of method, door, kind and age of the
// certificate. What is not stated is denied.
func TestEveryCellOfTheTable(t *testing.T) {
	for _, own := range []bool{false, true} {
		gatewayAt, adminAt := doorMesh, doorMesh
		if own {
			gatewayAt, adminAt = doorGateway, doorAdmin
		}
		want := map[string]bool{}
		allow := func(method string, d door, expired bool, kinds ...kind) {
			for _, k := range kinds {
				want[cell(method, d, k, expired)] = true
			}
		}
		allow(methodEnroll, doorMesh, false, kindNobody)
		for _, expired := range []bool{false, true} {
			allow(methodRenew, doorMesh, expired, kindMgmt, kindCore, kindEntry, kindAdmin)
		}
		allow(controlpb.Cluster_Promise_FullMethodName, doorMesh, false, kindNobody)
		allow(controlpb.Cluster_Join_FullMethodName, doorMesh, false, kindNobody, kindMgmt)
		allow(controlpb.Cluster_MoveLeader_FullMethodName, doorMesh, false, kindMgmt)
		allow(controlpb.Cluster_Rekey_FullMethodName, doorMesh, false, kindMgmt)
		allow(methodConnect, doorMesh, false, kindCore, kindEntry)
		allow(controlpb.Chores_Orders_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Report_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Draft_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Allow_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Proof_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Notices_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Sent_FullMethodName, doorAux, false, kindAux)
		allow(controlpb.Chores_Answer_FullMethodName, doorAux, false, kindAux)
		for _, m := range []string{methodRange, methodTxn, methodWatch} {
			allow(m, gatewayAt, false, kindEntry)
		}
		for m := range admin.Table() {
			allow(m, adminAt, false, kindAdmin)
			allow(m, doorSocket, false, kindLocal)
		}
		for m := range admin.BotTable() {
			allow(m, doorAux, false, kindAux) // for whom, matrix_bot_test.go looks at
		}
		compareCells(t, newAccess(own, own), want)
	}
}

func cell(method string, d door, k kind, expired bool) string {
	return fmt.Sprintf("%s at %s by %s expired=%v", method, d, k, expired)
}

func compareCells(t *testing.T, a access, want map[string]bool) {
	t.Helper()
	methods := []string{"/meshctl.v1.Admin/Nothing", "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Cluster/MemberAdd", "/etcdserverpb.Maintenance/Snapshot", ""}
	for m := range a {
		methods = append(methods, m)
	}
	for _, m := range methods {
		for _, d := range allDoors {
			for _, k := range allKinds {
				for _, expired := range []bool{false, true} {
					_, err := a.decide(m, d, k, expired)
					c := cell(m, d, k, expired)
					if got := err == nil; got != want[c] {
						t.Errorf("%s: admitted %v, want %v", c, got, want[c])
					}
					if err != nil && mesh.Kind(err) != mesh.ErrDenied {
						t.Errorf("%s: kind %v, want denied", c, mesh.Kind(err))
					}
				}
			}
		}
	}
}

func TestAnAdministratorsRoleOfNowDecides(t *testing.T) {
	roles := []mesh.AdminRole{"", "somebody", mesh.AdminAuditor, mesh.AdminOperator, mesh.AdminOwner}
	for m, need := range admin.Table() {
		r := newAccess(false, false)[m]
		for _, role := range roles {
			got := r.permits(m, role) == nil
			if want := role.Rank() >= need.Rank() && role.Rank() > 0; got != want {
				t.Errorf("%s by %q: permitted %v, want %v", m, role, got, want)
			}
		}
	}
}
