package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func entryNoun() noun[admin.EntryView] {
	name := func(e admin.EntryView) string { return e.Name }
	state := func(e admin.EntryView) string {
		switch {
		case !e.Pod.Gone.IsZero():
			return "gone"
		case e.Banned:
			return "banned"
		case e.Revoked:
			return "revoked"
		case e.Status != nil && e.Status.Connected:
			return "online"
		}
		return "offline"
	}
	return noun[admin.EntryView]{
		one: "entry", many: "entries",
		empty: "bring one in with `meshctl admin token create --role entry`",
		id:    func(e admin.EntryView) string { return string(e.ID) },
		label: name,
		refs:  refs(admin.EntryList, plain, name),
		columns: []column[admin.EntryView]{
			text("NAME", name),
			text("STATE", state),
			{"SEEN", func(e admin.EntryView, now time.Time) string { return seen(e.Status, now) }},
			text("VERSION", func(e admin.EntryView) string { return e.Version }),
			{"CERTIFICATE ENDS", func(e admin.EntryView, now time.Time) string { return age(e.CertEnds, now) }},
			text("ID", func(e admin.EntryView) string { return string(e.ID) }),
		},
		fields: func(e admin.EntryView, now time.Time) []field {
			return append([]field{
				{"Name", e.Name},
				{"Id", string(e.ID)},
				{"State", state(e)},
				{"Pod", podOf(e.Pod)},
				{"Version", e.Version},
				{"Joined", at(e.Joined, now)},
				{"Certificate ends", at(e.CertEnds, now)},
			}, statusFields(e.Status, now)...)
		},
	}
}

// podOf is what an entry runs as in a cluster.
func podOf(p mesh.EntryPod) string {
	if p.Name == "" {
		return ""
	}
	text := p.Namespace + "/" + p.Name
	if p.Node != "" {
		text += " on " + p.Node
	}
	return text
}

func newAdminEntry(a *adminCLI) *cobra.Command {
	n := entryNoun()
	c := group("entry", "Entrance nodes, in Kubernetes clusters too",
		newList(a, n, admin.EntryList, 0, plain),
		newShow(a, n, admin.EntryGet),
		newEntrySet(a, n),
		newRevoke(a, n, admin.EntryRevoke, "Its connections are cut and it has to join anew; this cannot be undone."),
		newBan(a, n, admin.EntryRevoke, "Its connections are cut, and none of its name can join until its record is removed."),
		newRemove(a, n, admin.EntryRemove, "Its record is deleted."),
	)
	c.AddGroup(&cobra.Group{ID: "kube", Title: "Entries in Kubernetes clusters (docs/kubernetes.md):"})
	add(c, "kube", newEntryDeploy(a), newEntryPlan(a), newEntryStatus(a), newEntryRollout(a), newEntryScale(a), newEntryImage(a), newEntryUninstall(a))
	return c
}

func newEntrySet(a *adminCLI, n noun[admin.EntryView]) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "set ENTRY", Short: "Change an entry's name", Args: takes("ENTRY"), ValidArgsFunction: completeArgs(a, n.refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("name"); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.EntryRename, admin.RenameRequest{Ref: args[0], Name: name})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	return c
}
