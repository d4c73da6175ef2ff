package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
)

func certNoun() noun[admin.CertView] {
	serial := func(c admin.CertView) string { return c.Serial }
	state := func(c admin.CertView) string {
		switch {
		case c.Revoked:
			return "revoked"
		case c.Expired:
			return "expired"
		}
		return "valid"
	}
	return noun[admin.CertView]{
		one: "certificate", many: "certificates", asIs: true,
		id: serial, label: serial,
		refs: refs(admin.CertList, func(p admin.Page) (admin.CertListRequest, error) {
			return admin.CertListRequest{Page: p}, nil
		}, serial),
		columns: []column[admin.CertView]{
			text("SERIAL", serial),
			text("NODE", func(c admin.CertView) string { return c.Node }),
			text("STATE", state),
			{"ISSUED", func(c admin.CertView, now time.Time) string { return age(c.Issued, now) }},
			{"ENDS", func(c admin.CertView, now time.Time) string { return age(c.NotAfter, now) }},
		},
		fields: func(c admin.CertView, now time.Time) []field {
			return []field{
				{"Serial", c.Serial},
				{"Node", c.Node},
				{"State", state(c)},
				{"Issued", at(c.Issued, now)},
				{"Valid from", at(c.NotBefore, now)},
				{"Ends", at(c.NotAfter, now)},
				{"Issuer", c.Issuer},
				{"Key", c.KeyHash},
				{"Token", string(c.Token)},
				{"Replaces", c.Replaces},
			}
		},
	}
}

func newAdminCert(a *adminCLI) *cobra.Command {
	n := certNoun()
	return group("cert", "Certificates the network issued",
		newCertList(a, n),
		newShow(a, n, admin.CertGet),
		newRevoke(a, n, admin.CertRevoke, "Whoever uses it is cut off until it has another; this cannot be undone."),
		newCertCRL(a),
	)
}

func newCertList(a *adminCLI, n noun[admin.CertView]) *cobra.Command {
	var node string
	c := newList(a, n, admin.CertList, 0, func(p admin.Page) (admin.CertListRequest, error) {
		return admin.CertListRequest{Page: p, Node: node}, nil
	})
	c.Flags().StringVar(&node, "node", "", "only this node's: its role/id, id or name")
	return c
}

func newCertCRL(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "crl", Short: "Print a certificate revocation list as PEM, for outsiders", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			crl, err := ask(ctx, s, admin.CertCRL, admin.None{})
			if err != nil {
				return err
			}
			if s.format.structured() {
				return s.format.print(s.out(), crl)
			}
			_, err = fmt.Fprintln(s.out(), strings.TrimRight(crl.PEM, "\n"))
			return err
		}),
	}
}
