package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

func newAdminStatus(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the whole mesh at one glance", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.StatusGet, admin.None{})
			if err != nil {
				return err
			}
			switch {
			case s.format.structured():
				return s.format.print(s.out(), v)
			case s.format == outputName:
				_, err := fmt.Fprintln(s.out(), v.Mesh)
				return err
			}
			if err := printFields(s.out(), meshFields(v, s.now)); err != nil {
				return err
			}
			for i, w := range v.Warnings {
				if i == 0 {
					fmt.Fprintln(s.out())
				}
				if _, err := fmt.Fprintln(s.out(), "warning:", clean(w)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func meshFields(v admin.Status, now time.Time) []field {
	return []field{
		{"Mesh", string(v.Mesh)},
		{"Version", v.Version},
		{"Server", named(v.Server.Name, string(v.Server.Server))},
		{"Up since", at(v.Server.Started, now)},
		{"Highly available", highly(v.Server)},
		{"Members", count(v.Members)},
		{"Devices", count(v.Devices)},
		{"Cells", count(v.Cells)},
		{"Cores", countedBy(v.Cores)},
		{"Entries online", fmt.Sprintf("%d of %d", v.EntriesOnline, v.Entries)},
		{"Clusters", clustersAt(v.Kubes)},
		{"Routes", count(v.Routes)},
		{"Moved", moved(v.Used)},
		{"Alerts", countedBy(v.Alerts)},
		{"On trial", onTrial(v.Rollouts)},
		{"Database", databaseUse(v.Server.Etcd)},
		{"Dead-man ping", pingState(v.Server, now)},
	}
}

// clustersAt is "north: 3/3 ready, release 4 complete; south: unreachable".
func clustersAt(all []admin.KubeLine) string {
	var out []string
	for _, c := range all {
		switch {
		case c.Contact != "":
			out = append(out, c.Name+": "+c.Contact)
		case c.Wanted == 0:
			out = append(out, c.Name+": nothing deployed")
		default:
			out = append(out, fmt.Sprintf("%s: %d/%d ready, release %d %s", c.Name, c.Ready, c.Desired, c.Release, c.Phase))
		}
	}
	return strings.Join(out, "; ")
}

// onTrial says which node tries which configuration first.
func onTrial(all []admin.RolloutView) string {
	var out []string
	for _, r := range all {
		if r.Trial.Revision != 0 {
			out = append(out, fmt.Sprintf("configuration %d of the %s, by %s", r.Trial.Revision, r.GroupName, cmp.Or(r.Canary, "the next that connects")))
		}
	}
	return strings.Join(out, "; ")
}

func databaseUse(e admin.EtcdStatus) string {
	if e.Quota == 0 {
		return ""
	}
	return size(e.BytesUsed) + " in use, " + size(e.Bytes) + " of " + size(e.Quota) + " on disk"
}

// countedBy is "3 (1 lost, 2 ready)".
func countedBy(by map[string]int) string {
	total, parts := 0, []string{}
	for _, state := range slices.Sorted(maps.Keys(by)) {
		total += by[state]
		parts = append(parts, fmt.Sprintf("%d %s", by[state], state))
	}
	if total == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
}
