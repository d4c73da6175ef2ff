package cmd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func acmeNameNoun() noun[admin.ACMEName] {
	name := func(n admin.ACMEName) string { return n.Name }
	return noun[admin.ACMEName]{
		one: "name", many: "names", id: name, label: name,
		empty: "add a cell with `meshctl admin cell add NAME SUFFIX --certificate public`",
		columns: []column[admin.ACMEName]{
			text("NAME", name),
			text("OF", func(n admin.ACMEName) string { return n.What }),
			text("CERTIFIED BY", certifiedBy),
			{"ENDS", func(n admin.ACMEName, now time.Time) string { return firstEnd(n.Certs, now) }},
			text("FAILURES", failuresOfCerts),
		},
	}
}

func certifiedBy(n admin.ACMEName) string {
	switch {
	case n.Ordered:
		return "ACME"
	case n.What == "subscription":
		return "files"
	case n.Public:
		return "upload"
	}
	return "own authority"
}

// firstEnd is when the first of several certificates ends.
func firstEnd(certs []admin.CertLine, now time.Time) string {
	var first time.Time
	for _, c := range certs {
		if !c.NotAfter.IsZero() && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	return at(first, now)
}

func failuresOfCerts(n admin.ACMEName) string {
	for _, c := range n.Certs {
		if c.Failures > 0 {
			return fmt.Sprintf("%d: %s", c.Failures, c.Reason)
		}
	}
	return "0"
}

func newAdminACME(a *adminCLI) *cobra.Command {
	c := group("acme", "How certificates that clients see are ordered from a public authority",
		newACMESet(a), newACMEStatus(a), newACMEOrder(a), newACMERemove(a))
	c.Long = `Management orders certificates by ACME (RFC 8555) and proves names by DNS records
(DNS-01), for cells with "--certificate public --order acme" and for the
subscription service. Keys of cells are made at the cores and stay there.

Whoever controls an entry can answer any other challenge for the names that lead to
it. Only a CAA record that names your account (RFC 8657) keeps an authority from asking
for one, so nothing is ordered before there is one: "meshctl admin doctor dns" prints it.`
	return c
}

type acmeFlags struct {
	directory, rootsFile, contact      string
	external, externalKeyFile          string
	provider, server, zone, key, alg   string
	secretFile                         string
	resolvers                          []string
	newAccount, agree, allowMissingCAA bool
}

func newACMESet(a *adminCLI) *cobra.Command {
	var f acmeFlags
	c := &cobra.Command{
		Use: "set", Short: "Change how certificates are ordered", Args: takes(),
		Long: `What no flag names stays. The account is made at the authority within seconds; another
directory begins with another account. The secret that writes DNS records should be
allowed to write TXT records of the zone and nothing else; an alias (CNAME) of
_acme-challenge.SUFFIX into a zone of its own is followed.`,
		Example: `  meshctl admin acme set --directory https://acme-v02.api.letsencrypt.org/directory --agree-terms \
    --dns rfc2136 --dns-server ns1.example.net:53 --dns-key update-key --dns-secret-file tsig.secret
  meshctl admin acme set --dns cloudflare --dns-secret-file token`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			req, err := f.request(ctx, s)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.ACMESet, req)
			if err != nil {
				return err
			}
			return printACME(s, v)
		}),
	}
	fs := c.Flags()
	fs.StringVar(&f.directory, "directory", "", "URL of the authority's ACME directory")
	fs.StringVar(&f.rootsFile, "roots", "", "PEM file with whom to trust for the directory, for an authority of your own; empty: the system's")
	fs.StringVar(&f.contact, "contact", "", "e-mail address that the authority may write to")
	fs.StringVar(&f.external, "external-account", "", "key id of an account that exists at the authority already")
	fs.StringVar(&f.externalKeyFile, "external-key-file", "", "file with the MAC key of that account, base64url, mode 0600")
	fs.BoolVar(&f.newAccount, "new-account", false, "begin with another account, as after the servers were broken into")
	fs.BoolVar(&f.agree, "agree-terms", false, "you agree to the terms of the authority")
	fs.StringVar(&f.provider, "dns", "", "how DNS records are written: rfc2136 or cloudflare")
	fs.StringVar(&f.server, "dns-server", "", "host:port that takes updates; for Cloudflare the URL of another API")
	fs.StringVar(&f.zone, "dns-zone", "", "zone to write to (default: found by asking)")
	fs.StringVar(&f.key, "dns-key", "", "name of the TSIG key")
	fs.StringVar(&f.alg, "dns-algorithm", "", "algorithm of the TSIG key (default hmac-sha256)")
	fs.StringVar(&f.secretFile, "dns-secret-file", "", "file with the TSIG secret (base64) or the token, mode 0600")
	fs.StringSliceVar(&f.resolvers, "resolver", nil, "host:port of resolvers to ask instead of the servers' own; may be repeated")
	fs.BoolVar(&f.allowMissingCAA, "allow-missing-caa", false, "order although no CAA record keeps others from it")
	complete(c, "dns", string(mesh.DNSUpdate), string(mesh.DNSCloudflare))
	complete(c, "dns-algorithm", mesh.TSIGAlgorithms()...)
	return c
}

func (f *acmeFlags) request(ctx context.Context, s *adminSession) (admin.ACMESetRequest, error) {
	req := admin.ACMESetRequest{
		Directory: given(s, "directory", f.directory), Contact: given(s, "contact", f.contact), External: given(s, "external-account", f.external),
		NewAccount: f.newAccount, Agree: f.agree, Provider: given(s, "dns", mesh.DNSKind(f.provider)), Server: given(s, "dns-server", f.server),
		Zone: given(s, "dns-zone", f.zone), KeyName: given(s, "dns-key", f.key), Algorithm: given(s, "dns-algorithm", f.alg),
		Resolvers: given(s, "resolver", f.resolvers), AllowMissingCAA: given(s, "allow-missing-caa", f.allowMissingCAA),
	}
	if f.rootsFile != "" {
		pem, err := os.ReadFile(f.rootsFile)
		if err != nil {
			return req, fmt.Errorf("--roots: %w", err)
		}
		req.Roots = new(string(pem))
	} else {
		req.Roots = given(s, "roots", "")
	}
	for _, x := range []struct {
		flag, file string
		to         **string
	}{{"--dns-secret-file", f.secretFile, &req.Credential}, {"--external-key-file", f.externalKeyFile, &req.ExternalKey}} {
		if x.file == "" {
			continue
		}
		secret, err := readSecretFile(ctx, x.flag, x.file, s.cmd.InOrStdin())
		if err != nil {
			return req, err
		}
		*x.to = new(secret.Reveal())
	}
	return req, nil
}

func newACMEStatus(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the account, and how orders go", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.ACMEGet, admin.None{})
			if err != nil {
				return err
			}
			return printACME(s, v)
		}),
	}
}

func newACMEOrder(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "order [CELL]", Short: "Try again now what failed before", Args: takes("[CELL]"), ValidArgsFunction: completeArgs(a, cellNoun().refs),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			var req admin.ACMEOrderRequest
			if len(args) > 0 {
				req.Ref = args[0]
			}
			v, err := ask(ctx, s, admin.ACMEOrder, req)
			if err != nil {
				return err
			}
			return printACME(s, v)
		}),
	}
}

func newACMERemove(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "remove", Short: "Order nothing any more, and forget the account's key", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			if err := s.confirm("Forget the account? Certificates that clients see are not renewed any more."); err != nil {
				return err
			}
			if _, err := ask(ctx, s, admin.ACMERemove, admin.None{}); err != nil {
				return err
			}
			return s.say("nothing is ordered any more")
		}),
	}
}

func printACME(s *adminSession, v admin.ACMEView) error {
	if s.format.structured() {
		return s.format.print(s.out(), v)
	}
	if v.Settings == nil {
		return s.say("nothing is ordered: meshctl admin acme set")
	}
	set, st := v.Settings, v.State
	account := orText(st.Account, "being made")
	if st.Failures > 0 {
		account = fmt.Sprintf("failed %d times in a row: %s", st.Failures, st.Reason)
	}
	fields := []field{
		{"Directory", set.Directory}, {"Account", account}, {"Contact", set.Contact}, {"Terms agreed to", at(set.Agreed, s.now)},
		{"DNS records by", string(set.Provider)}, {"DNS server", set.Server}, {"DNS zone", orText(set.Zone, "found by asking")}, {"TSIG key", set.KeyName},
		{"Resolvers", orText(listOf(set.Resolvers), "the system's")}, {"Orders without CAA record", yesNo(set.AllowMissingCAA)},
	}
	if err := printFields(s.out(), fields); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(s.out()); err != nil {
		return err
	}
	return printTable(s.out(), acmeNameNoun().columns, v.Names, s.now, true)
}
