package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newEntryStatus(a *adminCLI) *cobra.Command {
	n := kubeNoun()
	return &cobra.Command{
		Use: "status [CLUSTER]", Short: "Show how the entries in Kubernetes clusters are", Args: takes("[CLUSTER]"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Show how the entries in Kubernetes clusters are: the release, its pods, what keeps them
from being as they should, and the addresses that clients are told.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if len(args) == 0 {
				l, err := pages(ctx, s, admin.KubeList, 0, plain)
				if err != nil {
					return err
				}
				if s.format.String() != outputTable || len(l.Items) == 0 {
					return printList(s.out(), s.format, n, l, s.now)
				}
				slices.SortFunc(l.Items, func(a, b admin.KubeView) int { return strings.Compare(a.Name, b.Name) })
				return printClusters(s, l.Items...)
			}
			v, err := askCluster(ctx, s, admin.KubeGet, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			if s.format.String() != outputTable {
				return printOne(s.out(), s.format, n, v, s.now)
			}
			return printClusters(s, v)
		}),
	}
}

func printClusters(s *adminSession, all ...admin.KubeView) error {
	for i, v := range all {
		if i > 0 {
			if err := s.say(""); err != nil {
				return err
			}
		}
		if err := printFields(s.out(), append([]field{{"Cluster", v.Name}}, kubeFields(v, s.now)...)); err != nil {
			return err
		}
		if err := printPods(s, v); err != nil {
			return err
		}
	}
	return nil
}

func printPods(s *adminSession, v admin.KubeView) error {
	if v.State == nil || len(v.State.Pods) == 0 {
		return nil
	}
	if err := s.say(""); err != nil {
		return err
	}
	if err := printCut(s.out(), podColumns(v), v.State.Pods, s.now, "REASON"); err != nil {
		return err
	}
	if more := v.State.Counted().All - len(v.State.Pods); more > 0 {
		return s.say("and %s", someOf(more, "more pod"))
	}
	return nil
}

// podColumns shows a pod beside the entry that it is.
func podColumns(v admin.KubeView) []column[mesh.KubePod] {
	entry := func(p mesh.KubePod) string {
		switch e, ok := v.Entries[p.UID]; {
		case !ok:
			return "not enrolled"
		case e.Revoked:
			return "revoked"
		case e.Status != nil && e.Status.Connected:
			return "online"
		}
		return "offline"
	}
	return []column[mesh.KubePod]{
		text("POD", func(p mesh.KubePod) string { return p.Name }),
		text("RELEASE", func(p mesh.KubePod) string { return count(int(p.Release)) }),
		text("STATE", podState),
		text("ENTRY", entry),
		text("RESTARTS", func(p mesh.KubePod) string { return count(p.Restarts) }),
		text("NODE", func(p mesh.KubePod) string { return p.Node }),
		{"AGE", func(p mesh.KubePod, now time.Time) string { return age(p.Started, now) }},
		text("REASON", func(p mesh.KubePod) string { return p.Reason }),
	}
}

func podState(p mesh.KubePod) string {
	switch {
	case p.Ending:
		return "draining"
	case p.Ready:
		return "ready"
	}
	return "not ready"
}

// kubeFields are how a cluster is, and what is wrong with it.
func kubeFields(v admin.KubeView, now time.Time) []field {
	out := []field{{"API", apiText(v, now)}, {"Release", releaseText(v, now)}}
	if v.Wanted.Number != 0 {
		out = append(out, field{"Image", v.Wanted.Layer.Image})
	}
	st := v.State
	if st == nil {
		return out
	}
	if st.Parked != 0 && st.Parked == v.Wanted.Number {
		out = append(out, field{"Failed", strings.ReplaceAll(strings.TrimSpace(st.ParkedWhy), "\n", " | ")})
	}
	if st.Rollout.Desired > 0 {
		out = append(out, field{"Rollout", fmt.Sprintf("release %d %s, since %s", st.Rollout.Release, rolloutText(st.Rollout), at(st.Rollout.Since, now))})
	}
	if v.Wanted.Number != 0 {
		out = append(out, field{"Network policy", policyText(st.Policy)})
	}
	if st.Lacking != "" {
		out = append(out, field{"Lacking", st.Lacking})
	}
	for _, x := range st.Conflicts {
		out = append(out, field{"Conflict", conflictText(x)})
	}
	for _, p := range st.Problems {
		out = append(out, field{"Problem", p})
	}
	if st.Drift > 0 {
		out = append(out, field{"Put right", someOf(st.Drift, "change") + " of others"})
	}
	for _, a := range st.Addresses {
		out = append(out, field{"Address", addressText(a)})
	}
	return out
}

func apiText(v admin.KubeView, now time.Time) string {
	st := v.State
	switch {
	case unseen(v):
		return "not looked at yet; meshctl admin kube check " + v.Name
	case st.Contact != "":
		text := fmt.Sprintf("%s, since %s", joined(st.Contact, st.Detail), at(st.Since, now))
		if !st.Seen.IsZero() {
			text += "; it answered well at " + at(st.Seen, now)
		}
		return text
	}
	text := strings.TrimSuffix("ok, "+clean(st.Version), ", ")
	if !st.Seen.IsZero() {
		text += ", looked at " + at(st.Seen, now)
	}
	return text
}

func releaseText(v admin.KubeView, now time.Time) string {
	r := v.Wanted
	if r.Number == 0 {
		return "none: nothing is deployed"
	}
	text := fmt.Sprintf("%d, %s by %s at %s", r.Number, r.Why, r.By, at(r.Made, now))
	switch {
	case v.Removing:
		text += "; being taken away"
	case v.Paused:
		text += "; paused"
	}
	if st := v.State; st != nil && st.Parked == r.Number && st.Ran != 0 {
		text += fmt.Sprintf("; failed, release %d is put back", st.Ran)
	}
	return text
}

func policyText(p mesh.KubePolicy) string {
	switch p {
	case mesh.PolicyEnforced:
		return "enforced"
	case mesh.PolicyOpen:
		return "not enforced: a pod reached what it may not"
	case mesh.PolicyNone:
		return "none, by --open-network"
	}
	return "not known yet whether it is enforced"
}
