package adminsvc

import (
	"context"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/audits"
)

// maxAnchors bounds the links that one check of the audit is told.
const maxAnchors = 100

func (s *Service) auditList(ctx context.Context, req admin.AuditListRequest) (admin.List[mesh.AuditRecord], error) {
	return listUntil(ctx, req.Page, s.Store.Audit.Latest,
		func(_ string, r mesh.AuditRecord) (mesh.AuditRecord, bool) {
			return r, spoke(r, req.Actor) && concerns(r, req.Object)
		},
		func(r mesh.AuditRecord) bool { return r.Time.Before(req.Since) })
}

func (s *Service) auditVerify(ctx context.Context, req admin.AuditVerifyRequest) (mesh.AuditReport, error) {
	if len(req.Anchors) > maxAnchors {
		return mesh.AuditReport{}, fmt.Errorf("admin: verify audit: %d anchors: want at most %d: %w", len(req.Anchors), maxAnchors, mesh.ErrInvalid)
	}
	return audits.Check(ctx, s.Store, s.now(), req.Anchors...)
}

// spoke says whether a record is of that actor, or of one who spoke in that way;
// with a colon at its end it is of a kind of actor or way.
func spoke(r mesh.AuditRecord, actor string) bool {
	if strings.HasSuffix(actor, ":") {
		return strings.HasPrefix(string(r.Actor), actor) || strings.HasPrefix(r.Via, actor)
	}
	return only(actor, string(r.Actor)) || actor == r.Via
}

// concerns says whether a record changed the object, kind/id or id alone.
func concerns(r mesh.AuditRecord, object string) bool {
	if object == "" {
		return true
	}
	for _, c := range r.Changes {
		if _, id, _ := strings.Cut(c.Object, "/"); c.Object == object || id == object {
			return true
		}
	}
	return false
}
