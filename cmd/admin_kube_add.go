package cmd

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/kube"
)

// kubeconfigFlags say how a cluster is reached.
type kubeconfigFlags struct {
	file, context string
	serverName    string
	unchecked     bool
}

func (f *kubeconfigFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "kubeconfig", "", "kubeconfig file, mode 0600, of an account that may do what \"meshctl admin kube rbac\" prints; -: standard input")
	c.Flags().StringVar(&f.context, "context", "", "context in it (default its current one)")
	c.Flags().StringVar(&f.serverName, "tls-server-name", "", "name that the certificate of the API has, where it is not that of its URL")
	c.Flags().BoolVar(&f.unchecked, "unchecked", false, "take it although the cluster does not answer, or does not permit enough")
	complete(c, "context")
	complete(c, "tls-server-name")
}

// read takes a cluster out of a kubeconfig, with the files that it names. Nothing
// else of it leaves this machine.
func (f *kubeconfigFlags) read(ctx context.Context, s *adminSession) (kube.API, error) {
	text, err := readPrivateFile(ctx, "--kubeconfig", f.file, s.cmd.InOrStdin(), kube.MaxKubeconfig)
	if err != nil {
		return kube.API{}, err
	}
	beside := func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && f.file != "-" {
			name = filepath.Join(filepath.Dir(f.file), name)
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readUpTo(ctx, file, kube.MaxKubeconfig)
	}
	api, err := kube.ParseKubeconfig(text, f.context, beside)
	if f.serverName != "" {
		api.ServerName = f.serverName
	}
	return api, err
}

func connectionOf(api kube.API) admin.KubeConnection {
	return admin.KubeConnection{Server: api.Server, CA: api.CA, ServerName: api.ServerName, Auth: api.Auth, Credential: api.Credential.Reveal()}
}

func newKubeAdd(a *adminCLI, n noun[admin.KubeView]) *cobra.Command {
	var f kubeconfigFlags
	var namespace string
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a cluster", Args: takes("NAME"), ValidArgsFunction: completeArgs(a),
		Long: `Add a cluster. The kubeconfig is read here; what logs in to the cluster is sealed in the
store and never shown again. Files that it names are read too; programs, plugins, proxies
and connections that are not verified are refused.

Apply once what "meshctl admin kube rbac" prints; its help says how to get a kubeconfig.
The cluster is asked before it is added.`,
		Example: "  meshctl admin kube add north --kubeconfig north.kubeconfig",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if f.file == "" {
				return usagef("how is the cluster reached?").hint("give --kubeconfig FILE; `meshctl admin kube rbac --help` says how to get one")
			}
			api, err := f.read(ctx, s)
			if err != nil {
				return err
			}
			if namespace == "" {
				namespace = api.Namespace
			}
			v, err := ask(ctx, s, admin.KubeAdd, admin.KubeAddRequest{Name: args[0], KubeConnection: connectionOf(api), Namespace: namespace, Unchecked: f.unchecked})
			if err != nil {
				return err
			}
			if err := changed(s, n, v, "added"); err != nil {
				return err
			}
			return s.say("deploy entries into it: meshctl admin entry deploy --cluster %s --image IMAGE", v.Name)
		}),
	}
	f.flags(c)
	c.Flags().StringVar(&namespace, "namespace", "", "namespace for entries alone (default that of the context, or "+kube.DefaultNamespace+")")
	return c
}

func newKubeSet(a *adminCLI, n noun[admin.KubeView]) *cobra.Command {
	var f kubeconfigFlags
	var name string
	var moved bool
	c := &cobra.Command{
		Use: "set CLUSTER", Short: "Change a cluster's name, or how it is reached", Args: takes(n.arg()), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Change a cluster's name, or how it is reached, as before a credential ends. The cluster is
asked with the new one first. Pods go on meanwhile.

A kubeconfig that leads to another cluster or namespace than the one that entries are
deployed in is refused, unless the old one is gone and --moved says so: what is wanted
is then made anew in the new one.`,
		Example: "  meshctl admin kube set north --kubeconfig north.kubeconfig",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange("kubeconfig", "name"); err != nil {
				return err
			}
			req := admin.KubeSetRequest{Ref: args[0], Name: given(s, "name", name), Unchecked: f.unchecked, Moved: moved}
			for _, flag := range []string{"context", "tls-server-name", "unchecked", "moved"} {
				if f.file == "" && s.cmd.Flags().Changed(flag) {
					return usagef("--%s is about a kubeconfig", flag).hint("give --kubeconfig FILE, too")
				}
			}
			if f.file != "" {
				api, err := f.read(ctx, s)
				if err != nil {
					return err
				}
				req.Connection = new(connectionOf(api))
			}
			v, err := ask(ctx, s, admin.KubeSet, req)
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	f.flags(c)
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().BoolVar(&moved, "moved", false, "the cluster or namespace of before is gone: deploy anew where the kubeconfig leads")
	return c
}
