package cmd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

func newCellRequest(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	var core string
	c := &cobra.Command{
		Use: "request CELL", Short: "Print what the cores of a public cell want certified, as PEM", Args: takes("CELL"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Each core of the cell makes a key of its own, which stays there, and a request for the
wildcard of the cell's suffix. Have each signed by a public authority, then bring the
chains with "meshctl admin cell certificate". Requests that have their certificate are
left out, unless one core is named.`,
		Example: `  meshctl admin cell request north > requests.pem
  meshctl admin cell request north --core one > one.csr`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			l, err := ask(ctx, s, admin.CellRequests, admin.CellRequestsRequest{Ref: args[0], Core: core})
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), l)
			}
			printed := 0
			for _, r := range l.Items {
				if !r.Open && core == "" {
					continue
				}
				printed++
				if _, err := fmt.Fprintf(s.out(), "# core %s (%s), *.%s\n%s", clean(r.Name), r.Core, r.Suffix, r.CSR); err != nil {
					return err
				}
			}
			if printed == 0 {
				fmt.Fprintln(s.err(), "no core waits for a certificate")
			}
			return nil
		}),
	}
	c.Flags().StringVar(&core, "core", "", "of this core alone")
	completeFlag(a, c, "core", coreNoun().refs)
	return c
}

func certifiedNoun() noun[admin.CellCertifiedLine] {
	core := func(c admin.CellCertifiedLine) string { return string(c.Core) }
	return noun[admin.CellCertifiedLine]{
		one: "certificate", many: "certificates", id: core, label: core,
		columns: []column[admin.CellCertifiedLine]{
			text("CORE", func(c admin.CellCertifiedLine) string { return c.Name }),
			{"ENDS", func(c admin.CellCertifiedLine, now time.Time) string { return at(c.NotAfter, now) }},
			text("ID", core),
		},
	}
}

// maxChainFile bounds a chain, in bytes.
const maxChainFile = 64 << 10

func newCellCertificate(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	return &cobra.Command{
		Use: "certificate CELL FILE...", Short: "Bring certificates that a public authority has made for the cores of a cell", Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: completeCellFiles(a, n),
		Long: `Each file is one chain in PEM, the leaf first. It goes to the core whose key it is for,
at once when that is connected and otherwise when it comes. All files are taken or none.`,
		Example: `  meshctl admin cell certificate north one.pem two.pem`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			req := admin.CellCertifyRequest{Ref: args[0]}
			for _, file := range args[1:] {
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if len(b) > maxChainFile {
					return usagef("%s: more than %d bytes", file, maxChainFile)
				}
				req.Chains = append(req.Chains, string(b))
			}
			got, err := ask(ctx, s, admin.CellCertify, req)
			if err != nil {
				return err
			}
			for _, c := range got.Items {
				if c.Warning != "" {
					fmt.Fprintf(s.err(), "warning: core %s: %s\n", clean(c.Name), clean(c.Warning))
				}
			}
			return printList(s.out(), s.format, certifiedNoun(), admin.List[admin.CellCertifiedLine]{Items: got.Items}, s.now)
		}),
	}
}

// completeCellFiles completes the cell, then files.
func completeCellFiles(a *adminCLI, n noun[admin.CellView]) cobra.CompletionFunc {
	cells := completeArgs(a, n.refs)
	return func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return cells(c, args, word)
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}
