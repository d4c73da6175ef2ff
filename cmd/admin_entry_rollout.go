package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func newEntryRollout(a *adminCLI) *cobra.Command {
	return group("rollout", "Rolling updates of entries in a Kubernetes cluster",
		newRolloutStatus(a), newRolloutHistory(a),
		newRolloutPause(a), newRolloutResume(a), newRolloutUndo(a))
}

func newRolloutStatus(a *adminCLI) *cobra.Command {
	var w waitFlags
	var cluster string
	c := &cobra.Command{
		Use: "status", Short: "Look on until a rolling update is done", Args: takes(),
		Long: "Look on until a rolling update is done. Ends with 1 when it failed.",
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := clusterNow(ctx, s, cluster)
			if err != nil {
				return err
			}
			if v.Wanted.Number == 0 {
				return notDeployed(v)
			}
			if w.none {
				st := rolloutStep(v, v.Wanted.Number)
				if st.err != nil {
					return st.err
				}
				return changed(s, kubeNoun(), v, st.line)
			}
			return w.rolled(ctx, s, v)
		}),
	}
	w.flags(c)
	clusterFlag(a, c, &cluster)
	return c
}

func newRolloutHistory(a *adminCLI) *cobra.Command {
	var cluster string
	c := &cobra.Command{
		Use: "history", Short: "List the releases of a cluster, the wanted one last", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := clusterNow(ctx, s, cluster)
			if err != nil {
				return err
			}
			all := slices.Clone(v.Earlier)
			if v.Wanted.Number != 0 {
				all = append(all, v.Wanted)
			}
			return printList(s.out(), s.format, releaseNoun(v), admin.List[mesh.EntryRelease]{Items: all}, s.now)
		}),
	}
	clusterFlag(a, c, &cluster)
	return c
}

func releaseNoun(v admin.KubeView) noun[mesh.EntryRelease] {
	number := func(r mesh.EntryRelease) string { return fmt.Sprint(r.Number) }
	return noun[mesh.EntryRelease]{
		one: "release", many: "releases", id: number, label: number, asIs: true,
		empty: "deploy entries with `meshctl admin entry deploy --image IMAGE`",
		columns: []column[mesh.EntryRelease]{
			text("RELEASE", number),
			{"MADE", func(r mesh.EntryRelease, now time.Time) string { return age(r.Made, now) }},
			text("BY", func(r mesh.EntryRelease) string { return string(r.By) }),
			text("WHY", func(r mesh.EntryRelease) string { return r.Why }),
			text("OUTCOME", func(r mesh.EntryRelease) string { return outcomeOf(v, r) }),
			text("PODS", wantedPods),
			text("IMAGE", func(r mesh.EntryRelease) string { return r.Layer.Image }),
		},
	}
}

// outcomeOf is what became of a release, "" before somebody looked.
func outcomeOf(v admin.KubeView, r mesh.EntryRelease) string {
	st, wanted := v.State, r.Number == v.Wanted.Number
	switch {
	case wanted && v.Removing:
		return "being taken away"
	case r.Failed:
		return "failed"
	case st == nil:
		return ""
	case st.Parked == r.Number:
		return "failed"
	case st.Ran == r.Number && (wanted || st.Parked != 0 && st.Rollout.Release == r.Number):
		return "runs"
	case st.Ran == r.Number:
		return "ran last"
	case wanted && st.Rollout.Release == r.Number:
		return string(st.Rollout.Phase)
	case wanted:
		return "not begun"
	}
	return "replaced"
}

// wantedPods is how many pods a release has.
func wantedPods(r mesh.EntryRelease) string {
	switch a := r.Layer.Autoscale; {
	case r.Layer.Kind == mesh.EntryDaemonSet:
		return "each node"
	case a != (mesh.EntryAutoscale{}):
		return fmt.Sprintf("%d-%d", a.Min, a.Max)
	}
	return count(r.Layer.Replicas)
}

func newRolloutPause(a *adminCLI) *cobra.Command {
	return newRolloutDeed(a, "pause", "Keep the pods of a rolling update as they are", "keeps its pods as they are; to go on: meshctl admin entry rollout resume")
}

func newRolloutResume(a *adminCLI) *cobra.Command {
	return newRolloutDeed(a, "resume", "Go on with a rolling update that was paused", "goes on; look on: meshctl admin entry rollout status")
}

func newRolloutDeed(a *adminCLI, action, short, done string) *cobra.Command {
	var cluster string
	c := &cobra.Command{
		Use: action, Short: short, Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			ref, err := oneCluster(ctx, s, cluster)
			if err != nil {
				return err
			}
			v, err := askCluster(ctx, s, admin.EntryRollout, admin.EntryRolloutRequest{Ref: ref, Action: action})
			if err != nil {
				return err
			}
			return changed(s, kubeNoun(), v, done+" --cluster "+clean(v.Name))
		}),
	}
	clusterFlag(a, c, &cluster)
	return c
}

func newRolloutUndo(a *adminCLI) *cobra.Command {
	var w waitFlags
	var cluster string
	var to int64
	c := &cobra.Command{
		Use: "undo", Short: "Go back to an earlier release", Args: takes(),
		Long: `Go back to an earlier release: the one that ran before, or the one that --to names. It
becomes a release of its own, with the next number: it can fail as any other, and what
ran last is put back then. Nothing stays paused.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			if to < 0 {
				return usagef("--to %d: want the number of a release", to)
			}
			ref, err := oneCluster(ctx, s, cluster)
			if err != nil {
				return err
			}
			v, err := askCluster(ctx, s, admin.EntryRollout, admin.EntryRolloutRequest{Ref: ref, Action: "undo", To: to})
			if err != nil {
				return err
			}
			if err := s.say("release %d is made: %s", v.Wanted.Number, clean(v.Wanted.Why)); err != nil {
				return err
			}
			return w.rolled(ctx, s, v)
		}),
	}
	w.flags(c)
	clusterFlag(a, c, &cluster)
	c.Flags().Int64Var(&to, "to", 0, "number of the release; 0: the one that ran before")
	completeFlag(a, c, "to", func(ctx context.Context, s *adminSession) ([]string, error) {
		v, err := clusterNow(ctx, s, cluster)
		var out []string
		for _, r := range v.Earlier {
			out = append(out, fmt.Sprint(r.Number))
		}
		return out, err
	})
	return c
}
