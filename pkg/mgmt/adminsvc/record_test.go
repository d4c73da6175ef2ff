package adminsvc

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestAuditIsListedByWhoAndHow(t *testing.T) {
	r := newRig(t)
	r.member("by certificate")
	for _, via := range []string{"telegram:7", "telegram:77"} {
		ctx := admin.WithCaller(t.Context(), admin.Caller{Actor: "admin:test", Role: mesh.AdminOwner, Via: via})
		must(r.memberAdd(ctx, admin.MemberAddRequest{Name: strings.Replace(via, ":", " ", 1)}))(t)
	}
	for actor, want := range map[string]int{
		"": 4, "admin:test": 3, "admin:": 3, "system:": 1, "telegram:": 2, "telegram:7": 1, "telegram:77": 1, "telegram:777": 0, "admin:tes": 0, "telegram": 0,
	} {
		if got := must(r.auditList(r.ctx(), admin.AuditListRequest{Actor: actor}))(t).Items; len(got) != want {
			t.Errorf("%q: %d records, want %d", actor, len(got), want)
		}
	}
}

func TestAuditIsVerified(t *testing.T) {
	r := newRig(t)
	r.member("Ada")
	got := must(r.auditVerify(r.ctx(), admin.AuditVerifyRequest{}))(t)
	if got.Wrong != 0 || got.Open != 2 {
		t.Errorf("got %+v", got)
	}
	anchor := []mesh.AuditAnchor{{Link: "0000000000000001", Sum: "x"}}
	if got := must(r.auditVerify(r.ctx(), admin.AuditVerifyRequest{Anchors: anchor}))(t); got.Wrong != 1 {
		t.Errorf("a link that is not here: got %+v", got)
	}
	_, err := r.auditVerify(r.ctx(), admin.AuditVerifyRequest{Anchors: make([]mesh.AuditAnchor, maxAnchors+1)})
	refused(t, err, mesh.ErrInvalid, "anchors")
	if resp, err := r.Store.Client().Get(t.Context(), "/mesh/v1/auditchain/", clientv3.WithPrefix()); err != nil || resp.Count != 0 {
		t.Errorf("a check has made %d links, %v", resp.Count, err)
	}
}
