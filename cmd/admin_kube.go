package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func kubeNoun() noun[admin.KubeView] {
	name := func(c admin.KubeView) string { return c.Name }
	return noun[admin.KubeView]{
		one: "cluster", many: "clusters",
		empty: "add one with `meshctl admin kube add NAME --kubeconfig FILE`",
		id:    func(c admin.KubeView) string { return string(c.ID) },
		label: name,
		refs:  refs(admin.KubeList, plain, name),
		columns: []column[admin.KubeView]{
			text("NAME", name),
			text("SERVER", func(c admin.KubeView) string { return c.Server }),
			text("NAMESPACE", func(c admin.KubeView) string { return c.Namespace }),
			{"API", contactOf},
			text("RELEASE", releaseOf),
			text("PODS", podsOf),
			{"CREDENTIAL ENDS", func(c admin.KubeView, now time.Time) string { return age(c.Ends, now) }},
			text("ID", func(c admin.KubeView) string { return string(c.ID) }),
		},
		fields: func(c admin.KubeView, now time.Time) []field {
			return append([]field{
				{"Name", c.Name},
				{"Id", string(c.ID)},
				{"Server", c.Server},
				{"Server name", c.ServerName},
				{"Login", string(c.Auth)},
				{"Credential ends", at(c.Ends, now)},
				{"Namespace", c.Namespace},
				{"Added", at(c.Added, now)},
			}, kubeFields(c, now)...)
		},
	}
}

// contactOf is how the API of a cluster is reached.
func contactOf(c admin.KubeView, now time.Time) string {
	switch {
	case unseen(c):
		return "not looked at yet"
	case c.State.Contact != "":
	case c.Wanted.Number == 0: // nobody goes on looking
		return "ok " + age(c.State.Seen, now) + " ago"
	default:
		return "ok"
	}
	return c.State.Contact + " for " + age(c.State.Since, now)
}

// unseen says whether nobody has had an answer from a cluster yet, nor tried.
func unseen(c admin.KubeView) bool {
	return c.State == nil || c.State.Contact == "" && c.State.Seen.IsZero()
}

// releaseOf is the release that is wanted, and how it goes.
func releaseOf(c admin.KubeView) string {
	switch {
	case c.Removing:
		return "being taken away"
	case c.Wanted.Number == 0:
		return "none"
	case c.State == nil:
		return count(int(c.Wanted.Number))
	case c.State.Parked == c.Wanted.Number:
		return fmt.Sprintf("%d failed", c.Wanted.Number)
	case c.Paused:
		return fmt.Sprintf("%d paused", c.Wanted.Number)
	case c.State.Rollout.Release != c.Wanted.Number:
		return fmt.Sprintf("%d not begun", c.Wanted.Number)
	}
	return fmt.Sprintf("%d %s", c.Wanted.Number, c.State.Rollout.Phase)
}

// podsOf is how many pods are ready of those that should be.
func podsOf(c admin.KubeView) string {
	if c.State == nil || c.Wanted.Number == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d ready", c.State.Counted().Ready, c.State.Rollout.Desired)
}

func newAdminKube(a *adminCLI) *cobra.Command {
	n := kubeNoun()
	c := group("kube", "Kubernetes clusters that entries run in",
		newKubeAdd(a, n),
		newList(a, n, admin.KubeList, 0, plain),
		newKubeShow(a, n),
		newKubeSet(a, n),
		newKubeCheck(a, n),
		newKubeRemove(a, n),
		newKubeRBAC(a),
	)
	c.Long = `Management keeps entries in the clusters that are added here, each in a namespace of its
own: what runs there, "meshctl admin entry deploy" says. A walk-through: docs/kubernetes.md.`
	return c
}

func newKubeCheck(a *adminCLI, n noun[admin.KubeView]) *cobra.Command {
	return &cobra.Command{
		Use: "check [CLUSTER]", Short: "Ask a cluster whether the credential does", Args: takes("[CLUSTER]"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Ask a cluster for its version, and whether the credential may do all that is needed
there. Ends with 1 when it may not, or the cluster gives no good answer.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			ref, err := oneCluster(ctx, s, argOf(args))
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.KubeCheck, admin.Ref{Ref: ref})
			if err != nil {
				return err
			}
			if s.format.structured() {
				err = s.format.print(s.out(), v)
			} else {
				err = printFields(s.out(), []field{
					{"Cluster", ref}, {"Version", v.Answer.Version}, {"Failure", string(v.Answer.Failure)}, {"Detail", v.Answer.Detail},
					{"The credential may", mayAll(v.Answer)}, {"It may not", strings.Join(v.Answer.Missing, ", ")}, {"Pod Security", podSecurity(v.Answer)},
				})
			}
			if err != nil {
				return err
			}
			return badCluster(ref, v)
		}),
	}
}

// badCluster is an error when a cluster's answer was not a good one.
func badCluster(ref string, v admin.KubeChecked) error {
	switch {
	case v.Answer.Failure != "":
		return mesh.WithHint(fmt.Errorf("cluster %s gave no good answer: %s", clean(ref), v.Answer.Failure), "docs/runbook/kubernetes.md has what each failure means")
	case len(v.Answer.Missing) > 0, v.Answer.Unguarded:
		return mesh.WithHint(fmt.Errorf("cluster %s is not prepared", clean(ref)), "somebody who administers it applies this: meshctl admin kube rbac | kubectl apply -f -")
	}
	return nil
}

// mayAll says that a credential does, or "".
func mayAll(a kube.Answer) string {
	if a.Failure != "" || len(a.Missing) > 0 {
		return ""
	}
	return "all that is needed"
}

// podSecurity is a fault of the namespace, or "".
func podSecurity(a kube.Answer) string {
	if a.Unguarded {
		return "the namespace does not enforce " + kube.PodSecurity
	}
	return ""
}

func newKubeRemove(a *adminCLI, n noun[admin.KubeView]) *cobra.Command {
	var abandon bool
	c := &cobra.Command{
		Use: "remove CLUSTER", Aliases: []string{"rm"}, Short: "Remove a cluster", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Remove a cluster in which no entries are deployed any more. With --abandon what is there
stays as it is, as for a cluster that is gone: pods that still run lose their
certificate within a day.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			d := deed{use: "remove", danger: "Its credential is forgotten."}
			if abandon {
				d.danger = "Its credential is forgotten. What runs there is left to itself: pods lose their certificate within a day."
			}
			if err := s.confirmDeed(d, n.one, args[0]); err != nil {
				return err
			}
			if _, err := ask(ctx, s, admin.KubeRemove, admin.KubeRemoveRequest{Ref: args[0], Abandon: abandon}); err != nil {
				return err
			}
			return s.say("cluster %s removed; its namespace stays, kubectl delete namespace takes it away", clean(args[0]))
		}),
	}
	c.Flags().BoolVar(&abandon, "abandon", false, "also when entries are deployed there: leave them to themselves")
	return c
}

func newKubeRBAC(a *adminCLI) *cobra.Command {
	var namespace string
	c := &cobra.Command{
		Use: "rbac", Short: "Print what lets management into a cluster, as YAML", Args: takes(),
		Long: `Print a manifest that somebody who administers a cluster applies once: the namespace, an
account for management that may do what is needed there and nothing else, and a priority
class for the pods.

A credential for that account, and a kubeconfig with it (NAME, SERVER and CA are those of
the cluster; a year is often the longest that a cluster gives):

  meshctl admin kube rbac | kubectl apply -f -
  TOKEN=$(kubectl -n meshctl-entry create token meshctl-manager --duration 8760h)
  kubectl config view --minify --flatten -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d > ca.pem
  export KUBECONFIG=$PWD/NAME.kubeconfig; umask 077
  kubectl config set-cluster NAME --server SERVER --certificate-authority ca.pem --embed-certs
  kubectl config set-credentials meshctl-manager --token "$TOKEN"
  kubectl config set-context NAME --cluster NAME --user meshctl-manager --namespace meshctl-entry
  kubectl config use-context NAME
  meshctl admin kube add NAME --kubeconfig NAME.kubeconfig

Where tokens end too soon, a Secret of type kubernetes.io/service-account-token with the
annotation kubernetes.io/service-account.name: meshctl-manager holds one that does not.`,
		Example: "  meshctl admin kube rbac --namespace meshctl-entry | kubectl apply -f -",
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			m, err := ask(ctx, s, admin.KubeRBACOf, admin.KubeRBACRequest{Namespace: namespace})
			if err != nil {
				return err
			}
			return printManifest(s, m)
		}),
	}
	c.Flags().StringVar(&namespace, "namespace", kube.DefaultNamespace, "namespace that entries will be in")
	return c
}

// printManifest prints YAML as it is, whatever the form of other output.
func printManifest(s *adminSession, m admin.KubeManifest) error {
	_, err := fmt.Fprint(s.out(), m.YAML)
	return err
}

func argOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// clusterFlag names a cluster where there are several.
func clusterFlag(a *adminCLI, c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "cluster", "", "cluster, by name or id; may be left out while there is one")
	completeFlag(a, c, "cluster", kubeNoun().refs)
}

// oneCluster is ref, or the name of the only cluster.
func oneCluster(ctx context.Context, s *adminSession, ref string) (string, error) {
	if ref != "" {
		return ref, nil
	}
	l, err := pages(ctx, s, admin.KubeList, 0, plain)
	if err != nil {
		return "", err
	}
	var names []string
	for _, c := range l.Items {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "", mesh.WithHint(fmt.Errorf("there is no cluster yet: %w", mesh.ErrNotFound), kubeNoun().empty)
	case 1:
		return names[0], nil
	}
	how := "name one"
	if s.cmd.Flags().Lookup("cluster") != nil {
		how = "give --cluster NAME"
	}
	return "", usagef("which cluster?").hint("%s; there are: %s", how, strings.Join(names, ", "))
}

// askCluster is ask about a cluster, for commands whose own list has none.
func askCluster[Req, Resp any](ctx context.Context, s *adminSession, m admin.Method[Req, Resp], req Req) (Resp, error) {
	resp, err := ask(ctx, s, m, req)
	if errors.Is(err, mesh.ErrNotFound) && mesh.Hint(err) == "" {
		err = mesh.WithHint(err, "see `meshctl admin kube list`")
	}
	return resp, err
}
