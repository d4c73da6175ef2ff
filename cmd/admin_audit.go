package cmd

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func auditNoun() noun[mesh.AuditRecord] {
	id := func(r mesh.AuditRecord) string { return r.ID }
	return noun[mesh.AuditRecord]{
		one: "record", many: "records of changes", asIs: true,
		id: id, label: id,
		columns: []column[mesh.AuditRecord]{
			text("TIME", func(r mesh.AuditRecord) string { return stamp(r.Time) }),
			text("ACTOR", actorOf),
			text("ACTION", func(r mesh.AuditRecord) string { return r.Action }),
			text("OBJECTS", func(r mesh.AuditRecord) string { return listOf(objects(r)) }),
			text("REQUEST", func(r mesh.AuditRecord) string { return r.Request }),
		},
	}
}

// actorOf names who made a change, and how they spoke if not with a certificate.
func actorOf(r mesh.AuditRecord) string {
	if r.Via == "" {
		return string(r.Actor)
	}
	return string(r.Actor) + " via " + r.Via
}

// objects names what a record changed, with what it was called.
func objects(r mesh.AuditRecord) []string {
	var out []string
	for _, c := range r.Changes {
		label, _ := cmp.Or(c.After["name"], c.Before["name"]).(string)
		if label != "" {
			label = " (" + label + ")"
		}
		out = append(out, c.Object+label)
	}
	return out
}

func newAdminAudit(a *adminCLI) *cobra.Command {
	var actor, object, since string
	c := newList(a, auditNoun(), admin.AuditList, defaultRecords, func(p admin.Page) (admin.AuditListRequest, error) {
		req := admin.AuditListRequest{Page: p, Actor: actor, Object: object}
		var err error
		if since != "" {
			if req.Since, err = mesh.ParseSince(since, time.Now()); err != nil {
				err = usagef("--since: %v", err)
			}
		}
		return req, err
	})
	c.Short = "List changes, newest first; -o json shows before and after"
	c.Flags().StringVar(&actor, "actor", "", "only changes by this actor, such as admin:ID, local:0 or telegram:NUMBER; with a colon at its end all of a kind, such as telegram:")
	c.Flags().StringVar(&object, "object", "", "only changes of this object: kind/id or an id")
	c.Flags().StringVar(&since, "since", "", "only changes since: 2h, 2027-01-31 or a time")
	return group("audit", "Who changed what", c, newAuditVerify(a))
}
