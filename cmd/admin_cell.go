package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func cellNoun() noun[admin.CellView] {
	name := func(c admin.CellView) string { return c.Name }
	ready := func(c admin.CellView) string { return fmt.Sprintf("%d/%d", c.CoresReady, c.Cores) }
	return noun[admin.CellView]{
		one: "cell", many: "cells",
		empty: "add one with `meshctl admin cell add NAME SUFFIX`",
		id:    func(c admin.CellView) string { return string(c.ID) },
		label: name,
		refs:  refs(admin.CellList, plain, name),
		columns: []column[admin.CellView]{
			text("NAME", name),
			text("SUFFIX", func(c admin.CellView) string { return string(c.Suffix) }),
			text("STATE", func(c admin.CellView) string { return string(c.State) }),
			text("CERTIFICATE", func(c admin.CellView) string { return string(c.Certificate) }),
			text("CORES", ready),
			text("DEVICES", func(c admin.CellView) string { return count(c.Devices) }),
			{"AGE", func(c admin.CellView, now time.Time) string { return age(c.Created, now) }},
			text("ID", func(c admin.CellView) string { return string(c.ID) }),
		},
		fields: func(c admin.CellView, now time.Time) []field {
			return []field{
				{"Name", c.Name},
				{"Id", string(c.ID)},
				{"Suffix", string(c.Suffix)},
				{"State", string(c.State)},
				{"Certificate", certificateOf(c)},
				{"Ways in", listOf(c.Offers)},
				{"Fallback", listOf(c.Fallback)},
				{"Guests", guestsOf(c.Guests)},
				{"Compromised", compromisedAt(c, now)},
				{"Replaced paths end", at(c.Replaced, now)},
				{"Client address passed to cores", yesNo(c.ForwardClientAddress)},
				{"Cores ready", ready(c)},
				{"Reached by entries", reachOf(c.Reach, now)},
				{"Out of reach", outOfReach(c.Unreachable, now)},
				{"Devices", count(c.Devices)},
				{"Created", at(c.Created, now)},
			}
		},
	}
}

func newAdminCell(a *adminCLI) *cobra.Command {
	n := cellNoun()
	return group("cell", "Groups of cores under one server-name suffix",
		newCellAdd(a, n),
		newList(a, n, admin.CellList, 0, plain),
		newShow(a, n, admin.CellGet),
		newCellSet(a, n),
		newCellCA(a, n),
		newCellRequest(a, n),
		newCellCertificate(a, n),
		newCellRotate(a, n),
		newCellMove(a, n),
		newCellState(a, n, cellState{"compromise", "Mark a cell's names as known to an adversary", "compromised", mesh.CellCompromised}),
		newCellState(a, n, cellState{"restore", "Use a compromised cell again", "in use again", mesh.CellActive}, "activate"),
		newCellState(a, n, cellState{"retire", "Stop serving a cell for good", "retired", mesh.CellRetired}),
		newRemove(a, n, admin.CellRemove, "Its certificate authority is lost with it."),
	)
}

func newCellAdd(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	var req admin.CellAddRequest
	var certificate string
	var options cellFlags
	c := &cobra.Command{
		Use: "add NAME SUFFIX", Short: "Add a cell", Args: takes("NAME", "SUFFIX"), ValidArgsFunction: completeArgs(a),
		Example: "  meshctl admin cell add north a.example.net",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			req.Name, req.Suffix, req.Certificate = args[0], args[1], mesh.CellCertificate(certificate)
			var err error
			if req.CellOptions, err = options.parse(s); err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.CellAdd, req)
			if err != nil {
				return err
			}
			if err := changed(s, n, v, "added"); err != nil {
				return err
			}
			return s.say("bring a core into it with: meshctl admin token create --role core --member MEMBER --cell %s", v.ID)
		}),
	}
	c.Flags().StringVar(&certificate, "certificate", string(mesh.CertificatePrivate), "what clients see, decided once: private (an authority of the cell's own) or public")
	complete(c, "certificate", string(mesh.CertificatePrivate), string(mesh.CertificatePublic))
	c.Flags().StringSliceVar(&req.Fallback, "fallback", nil, "cells that take its devices in when it is compromised, best first")
	c.Flags().BoolVar(&req.ForwardClientAddress, "forward-client-address", false, "tell the cell's cores where clients come from")
	options.flags(c)
	completeFlag(a, c, "fallback", n.refs)
	return c
}

func newCellSet(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	var name string
	var fallback []string
	var forward bool
	var options cellFlags
	c := &cobra.Command{
		Use: "set CELL", Short: "Change a cell", Args: takes("CELL"), ValidArgsFunction: completeArgs(a, n.refs),
		Example: "  meshctl admin cell set north --offer vless-tcp,trojan-tcp,vless-ws --fallback south\n" +
			"  meshctl admin cell set south --guest-devices 2 --guest-traffic 10GB",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			if err := s.needChange(append([]string{"name", "fallback", "forward-client-address"}, options.names()...)...); err != nil {
				return err
			}
			o, err := options.parse(s)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.CellSet, admin.CellSetRequest{
				Ref: args[0], Name: given(s, "name", name), Fallback: given(s, "fallback", fallback),
				ForwardClientAddress: given(s, "forward-client-address", forward), CellOptions: o,
			})
			if err != nil {
				return err
			}
			return changed(s, n, v, "changed")
		}),
	}
	c.Flags().StringVar(&name, "name", "", "new name")
	c.Flags().StringSliceVar(&fallback, "fallback", nil, "cells that take its devices in when it is compromised, best first; empty: none")
	c.Flags().BoolVar(&forward, "forward-client-address", false, "tell the cell's cores where clients come from")
	options.flags(c)
	completeFlag(a, c, "fallback", n.refs)
	return c
}

func newCellCA(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	return &cobra.Command{
		Use: "ca CELL", Short: "Print a private cell's certificate authority as PEM", Args: takes("CELL"), ValidArgsFunction: completeArgs(a, n.refs),
		Example: "  meshctl admin cell ca north > ca.pem",
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			ca, err := ask(ctx, s, admin.CellCAOf, admin.Ref{Ref: args[0]})
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), ca)
			}
			_, err = fmt.Fprintln(s.out(), strings.TrimRight(ca.PEM, "\n"))
			return err
		}),
	}
}
