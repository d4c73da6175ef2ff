package cmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// deployable is a cluster, and what is to run in it.
type deployable struct {
	cluster admin.KubeView
	layer   mesh.EntryLayer
}

func (d deployable) request(why string) admin.EntryDeployRequest {
	return admin.EntryDeployRequest{Ref: string(d.cluster.ID), Layer: d.layer, Base: d.cluster.Wanted.Number, Why: why}
}

// find reads the cluster, and puts what the flags say onto what is wanted there.
func (f *layerFlags) find(ctx context.Context, s *adminSession, cluster string) (deployable, error) {
	v, err := clusterNow(ctx, s, cluster)
	if err != nil {
		return deployable{}, err
	}
	layer, err := f.onto(ctx, s, v.Wanted.Layer)
	if err == nil && layer.Image == "" {
		err = usagef("which image?").hint("give --image REGISTRY/NAME:VERSION; docs/kubernetes.md says how it is built")
	}
	return deployable{v, layer}, err
}

// clusterNow is a cluster as it is now; the only one where none is named.
func clusterNow(ctx context.Context, s *adminSession, cluster string) (admin.KubeView, error) {
	ref, err := oneCluster(ctx, s, cluster)
	if err != nil {
		return admin.KubeView{}, err
	}
	return askCluster(ctx, s, admin.KubeGet, admin.Ref{Ref: ref})
}

func newEntryDeploy(a *adminCLI) *cobra.Command {
	var f layerFlags
	var w waitFlags
	var cluster string
	var dry bool
	c := &cobra.Command{
		Use: "deploy", Short: "Deploy entries into a Kubernetes cluster, or change them", Args: takes(),
		Long: `Deploy entries into a Kubernetes cluster, or change them. What no flag names stays as it
is, at first as the defaults say; -f FILE takes the place of all of it. Pods change one
by one, and no connection is cut that ends within --drain-limit.

Waits until the pods are as they should be. A rolling update that makes no progress for
--deadline ends with 1, and what ran before is put back. So does, at once, what the
cluster refuses, or what somebody else keeps otherwise: nothing is forced. Whoever does
not wait any more (Ctrl-C, --wait, --no-wait) changes nothing about it: it goes on.

FILE is what "meshctl admin kube show CLUSTER --layer" prints.`,
		Example: `  meshctl admin entry deploy --image registry.example.net/meshctl:1.4 --replicas 3
  meshctl admin entry deploy --cluster north --autoscale 2-10@70% --lb-class example.net/l4
  meshctl admin entry deploy --image registry.example.net/meshctl:1.4 --dry-run`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			d, err := f.find(ctx, s, cluster)
			if err == nil {
				err = unusualPort(s, d)
			}
			if err != nil {
				return err
			}
			if dry {
				m, err := ask(ctx, s, admin.EntryRender, d.request("deploy"))
				if err != nil {
					return err
				}
				return printManifest(s, m)
			}
			return w.deploy(ctx, s, d, "deploy")
		}),
	}
	f.flags(c)
	w.flags(c)
	clusterFlag(a, c, &cluster)
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be applied as YAML, and change nothing")
	return c
}

func newEntryPlan(a *adminCLI) *cobra.Command {
	var f layerFlags
	var cluster string
	c := &cobra.Command{
		Use: "plan", Short: "Show what a deployment would change in the cluster", Args: takes(),
		Long: `Show what a deployment with the same flags would change in the cluster. Without any, it
shows what others have changed there, which is put right by itself.`,
		Example: "  meshctl admin entry plan --replicas 5",
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			d, err := f.find(ctx, s, cluster)
			if err == nil {
				err = unusualPort(s, d)
			}
			if err != nil {
				return err
			}
			p, err := ask(ctx, s, admin.EntryPlanOf, d.request("deploy"))
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), p)
			}
			return printPlan(s, p)
		}),
	}
	f.flags(c)
	clusterFlag(a, c, &cluster)
	return c
}

func printPlan(s *adminSession, p admin.EntryPlan) error {
	kept := 0
	for _, c := range p.Changes {
		if c.Action == kube.Keep && len(c.Conflicts) == 0 {
			kept++
			continue
		}
		if err := s.say("%s %s", c.Action, clean(c.Object)); err != nil {
			return err
		}
		if err := sayLines(s, "  ", c.Diff); err != nil {
			return err
		}
		for _, x := range c.Conflicts {
			if err := s.say("  conflict: %s", conflictText(x)); err != nil {
				return err
			}
		}
	}
	switch kept {
	case len(p.Changes):
		return s.say("nothing would change")
	case 0:
		return nil
	}
	return s.say("%s would stay as they are", someOf(kept, "object"))
}

// conflictText names a field and both who want it otherwise.
func conflictText(x mesh.KubeConflict) string {
	return fmt.Sprintf("%s: field %s is kept otherwise by %s, and %s does not force it: all changes to this object are held back", clean(x.Object), clean(x.Field), clean(x.Manager), kube.FieldManager)
}

// sayLines prints text of others line by line.
func sayLines(s *adminSession, indent, text string) error {
	if text == "" {
		return nil
	}
	for line := range strings.Lines(text) {
		if err := s.say("%s%s", indent, clean(strings.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	return nil
}

func newEntryScale(a *adminCLI) *cobra.Command {
	return newLayerChange(a, layerChange{
		use: "scale N", arg: "N", short: "Change how many entries there are in a cluster", why: "scale",
		long: `Change how many entries there are in a cluster. No other pod is restarted for it. After a
release that failed it is the number of what was put back; the failed one stays so.`,
		example: "  meshctl admin entry scale 5 --cluster north", ofRunning: true,
		apply: func(l *mesh.EntryLayer, arg string) error {
			n, err := strconv.Atoi(arg)
			switch {
			case err != nil:
				return usagef("%q: want a number", arg)
			case n < 1:
				return usagef("%d entries: want 1 or more", n).hint("none at all: meshctl admin entry uninstall")
			case l.Autoscale != (mesh.EntryAutoscale{}):
				return usagef("an autoscaler decides how many there are").hint("change its bounds: meshctl admin entry deploy --autoscale MIN-MAX, or off with --replicas N")
			case l.Kind == mesh.EntryDaemonSet:
				return usagef("a daemonset has one pod on each node").hint("choose the nodes: meshctl admin entry deploy --node-selector KEY=VALUE")
			}
			l.Replicas = n
			return nil
		},
	})
}

func newEntryImage(a *adminCLI) *cobra.Command {
	return newLayerChange(a, layerChange{
		use: "image REF", arg: "REF", short: "Change the image of the entries in a cluster", why: "image",
		long:    "Change the image of the entries in a cluster. Pods change one by one.",
		example: "  meshctl admin entry image registry.example.net/meshctl:1.5",
		apply:   func(l *mesh.EntryLayer, arg string) error { l.Image = arg; return nil },
	})
}

// layerChange is a leaf that changes one thing of what runs already.
type layerChange struct {
	use, arg, short, long, example, why string
	ofRunning                           bool // of what was put back, when a release failed
	apply                               func(*mesh.EntryLayer, string) error
}

func newLayerChange(a *adminCLI, x layerChange) *cobra.Command {
	var w waitFlags
	var cluster string
	c := &cobra.Command{
		Use: x.use, Short: x.short, Long: x.long, Example: x.example, Args: takes(x.arg), ValidArgsFunction: completeArgs(a),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := clusterNow(ctx, s, cluster)
			if err != nil {
				return err
			}
			if v.Wanted.Number == 0 {
				return notDeployed(v)
			}
			d := deployable{v, v.Wanted.Layer}
			if x.ofRunning {
				d.layer = v.Runs().Layer
			}
			if err := x.apply(&d.layer, args[0]); err != nil {
				return err
			}
			return w.deploy(ctx, s, d, x.why)
		}),
	}
	w.flags(c)
	clusterFlag(a, c, &cluster)
	return c
}

func notDeployed(v admin.KubeView) error {
	return mesh.WithHint(fmt.Errorf("cluster %s: no entries are deployed there: %w", clean(v.Name), mesh.ErrConflict),
		"deploy some: meshctl admin entry deploy --cluster "+v.Name+" --image IMAGE")
}

func newEntryUninstall(a *adminCLI) *cobra.Command {
	var w waitFlags
	n := kubeNoun()
	c := &cobra.Command{
		Use: "uninstall [CLUSTER]", Short: "Take the entries of a cluster away", Args: takes("[CLUSTER]"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Take the entries of a cluster away, and all else that management put there. Open
connections may go on for the drain limit. The namespace stays, and the cluster can be
deployed to again.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			v, err := clusterNow(ctx, s, argOf(args))
			if err != nil {
				return err
			}
			if err := s.confirm(fmt.Sprintf("Take the entries of cluster %s away? Clients are told other addresses at their next fetch; those that know no other stay outside.", clean(v.Name))); err != nil {
				return err
			}
			if v, err = ask(ctx, s, admin.EntryUninstall, admin.Ref{Ref: string(v.ID)}); err != nil {
				return err
			}
			if v, err = w.until(ctx, s, v, goneNow); err != nil {
				return err
			}
			if w.none {
				return changed(s, n, v, "is being cleared of entries")
			}
			return changed(s, n, v, "has no entries any more")
		}),
	}
	w.flags(c)
	return c
}
