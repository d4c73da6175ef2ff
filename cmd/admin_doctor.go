package cmd

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// surveyTime bounds the questions about one name.
const surveyTime = 30 * time.Second

func newAdminDoctor(a *adminCLI) *cobra.Command {
	return group("doctor", "Look for what is wrong with the network", newDoctorDNS(a))
}

func newDoctorDNS(a *adminCLI) *cobra.Command {
	var resolvers []string
	c := &cobra.Command{
		Use: "dns", Short: "Check what name servers say about the names that clients use", Args: takes(),
		Long: `Asks from this machine: whether the names of cells and of the subscription service lead
to the entries, and whether CAA records let your ACME account alone obtain certificates
for them. The server is asked about the names of entries in Kubernetes clusters: clients
are told such a name while it leads there as the server sees it. Prints the records to
make, and ends with 1 when something is wrong.`,
		Example: `  meshctl admin doctor dns --resolver 9.9.9.9:53`,
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.ACMEGet, admin.None{})
			if err != nil {
				return err
			}
			clusters, err := ask(ctx, s, admin.DNSRecordsOf, admin.None{})
			if err != nil {
				return err
			}
			r, err := acme.NewResolver(resolvers...)
			if err != nil {
				return err
			}
			answers := append(survey(ctx, r, v), ofClusters(clusters)...)
			if s.format.structured() {
				err = s.format.print(s.out(), answers)
			} else {
				err = printSurvey(s.out(), answers)
			}
			if err != nil {
				return err
			}
			return wrongNames(answers)
		}),
	}
	c.Flags().StringSliceVar(&resolvers, "resolver", nil, "host:port of resolvers to ask instead of this machine's; may be repeated")
	return c
}

func survey(ctx context.Context, r *acme.Resolver, v admin.ACMEView) []acme.Answer {
	out := []acme.Answer{}
	for _, n := range v.Names {
		bounded, cancel := context.WithTimeout(ctx, surveyTime)
		out = append(out, r.Survey(bounded, acme.Question{
			Name: n.Name, What: n.What, Public: n.Public, Ordered: n.Ordered,
			Account: v.State.Account, Identities: v.State.Identities, Entries: v.Entries,
		}))
		cancel()
	}
	return out
}

// ofClusters says what the server sees of the names of clusters.
func ofClusters(v admin.DNSRecords) []acme.Answer {
	var out []acme.Answer
	for _, r := range v.Records {
		a := acme.Answer{Name: r.Name, What: "entries in Kubernetes, " + r.Type, Addresses: []netip.Addr{}, CAA: []string{}}
		for _, f := range r.Found {
			if ip, err := netip.ParseAddr(f); err == nil {
				a.Addresses = append(a.Addresses, ip)
			}
		}
		if r.Fault != "" {
			a.Problems = []string{r.Fault}
		}
		alias := r.Type == "CNAME" && r.Fault == ""
		for _, w := range r.Want {
			if !alias && !slices.Contains(r.Found, w) {
				a.Make = append(a.Make, r.Name+". "+recordTo(r.Type, w))
			}
		}
		out = append(out, a)
	}
	return out
}

func recordTo(kind, to string) string {
	if kind == "CNAME" {
		to += "."
	}
	return kind + " " + to
}

func printSurvey(w io.Writer, answers []acme.Answer) error {
	var b strings.Builder
	for _, a := range answers {
		verdict := "ok"
		if len(a.Problems) > 0 {
			verdict = "wrong"
		}
		fmt.Fprintf(&b, "%s (%s): %s\n", clean(a.Name), clean(a.What), verdict)
		fmt.Fprintf(&b, "  leads to: %s\n", orText(listOf(a.Addresses), "nowhere"))
		for _, c := range a.CAA {
			fmt.Fprintf(&b, "  CAA at %s: %s\n", clean(a.CAAAt), clean(c))
		}
		for _, x := range []struct {
			head  string
			lines []string
		}{{"wrong", a.Problems}, {"advice", a.Advice}, {"make", a.Make}} {
			for _, l := range x.lines {
				fmt.Fprintf(&b, "  %s: %s\n", x.head, clean(l))
			}
		}
	}
	if len(answers) == 0 {
		b.WriteString("no names: add a cell first\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrongNames is an error when something is wrong.
func wrongNames(answers []acme.Answer) error {
	var bad []string
	hint := "mend what is named above; when a server did not answer, ask another one with --resolver"
	for _, a := range answers {
		if len(a.Problems) > 0 {
			bad = append(bad, a.Name)
		}
		if len(a.Make) > 0 {
			hint = "make the records that are printed above"
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("name servers do not say what they should about %s", strings.Join(bad, ", ")), hint)
}
