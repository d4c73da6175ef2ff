package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

func newKubeShow(a *adminCLI, n noun[admin.KubeView]) *cobra.Command {
	c := newShow(a, n, admin.KubeGet)
	c.Long = `Show one cluster. With --layer only what is to run there, as YAML that "meshctl admin
entry deploy -f FILE" takes: change it there, or deploy the same elsewhere.`
	c.Example = "  meshctl admin kube show north --layer >north.yaml\n  meshctl admin entry deploy --cluster north -f north.yaml"
	show, layer := c.RunE, false
	c.RunE = func(c *cobra.Command, args []string) error {
		if !layer {
			return show(c, args)
		}
		return a.run(printLayer)(c, args)
	}
	c.Flags().BoolVar(&layer, "layer", false, "only what is to run there, as YAML for entry deploy -f")
	return c
}

// printLayer prints what is to run in a cluster, as deploy reads it.
func printLayer(ctx context.Context, s *adminSession, args []string) error {
	v, err := ask(ctx, s, admin.KubeGet, admin.Ref{Ref: args[0]})
	if err != nil {
		return err
	}
	if v.Wanted.Number == 0 {
		return notDeployed(v)
	}
	f := outputFormat(outputYAML)
	if s.format == outputJSON {
		f = outputJSON
	}
	return f.print(s.out(), v.Wanted.Layer)
}
