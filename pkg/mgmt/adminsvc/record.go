package adminsvc

import (
	"context"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func (s *Service) auditList(ctx context.Context, req admin.AuditListRequest) (admin.List[mesh.AuditRecord], error) {
	return listUntil(ctx, req.Page, s.Store.Audit.Latest,
		func(_ string, r mesh.AuditRecord) (mesh.AuditRecord, bool) {
			return r, only(req.Actor, string(r.Actor)) && concerns(r, req.Object)
		},
		func(r mesh.AuditRecord) bool { return r.Time.Before(req.Since) })
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
