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

// cellFlags say how clients get into a cell's cores, as people write it.
type cellFlags struct {
	offers              []string
	order, guestTraffic string
	guests, connections int
}

func (f *cellFlags) names() []string {
	return []string{"offer", "order", "guest-devices", "guest-connections", "guest-traffic"}
}

func (f *cellFlags) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.offers, "offer", nil, "ways in for clients: "+listOf(mesh.Offers())+"; default: "+strings.ReplaceAll(listOf(mesh.DefaultOffers()), ", ", ","))
	c.Flags().StringVar(&f.order, "order", "", "who asks for a public certificate: upload (you) or acme")
	c.Flags().IntVar(&f.guests, "guest-devices", 0, "devices of each member taken in from compromised cells; 0: all")
	c.Flags().IntVar(&f.connections, "guest-connections", 0, "connections each guest may have open at once; 0: as many as it may at home")
	c.Flags().StringVar(&f.guestTraffic, "guest-traffic", "unlimited", "bytes that all guests of one member may move, such as 10GB")
	var words []string
	for _, o := range mesh.Offers() {
		words = append(words, o.String())
	}
	complete(c, "offer", append(words, "default")...)
	complete(c, "order", string(mesh.OrderUpload), string(mesh.OrderACME))
}

// parse takes what was given. It returns faults of usage.
func (f *cellFlags) parse(s *adminSession) (admin.CellOptions, error) {
	var o admin.CellOptions
	traffic, err := mesh.ParseSize(f.guestTraffic)
	if err != nil {
		return o, usagef("--guest-traffic: %v", err)
	}
	offers, err := parseOffers(f.offers)
	if err != nil {
		return o, usagef("--offer: %v", err)
	}
	return admin.CellOptions{
		Offers: given(s, "offer", offers), Order: given(s, "order", mesh.CertificateOrder(f.order)),
		GuestDevices: given(s, "guest-devices", f.guests), GuestConnections: given(s, "guest-connections", f.connections),
		GuestTraffic: given(s, "guest-traffic", traffic),
	}, nil
}

// parseOffers reads ways in; nothing, or the one word default, is those by default.
func parseOffers(words []string) ([]mesh.Offer, error) {
	out := []mesh.Offer{}
	if len(words) == 1 && (words[0] == "default" || words[0] == "") {
		return out, nil
	}
	for _, w := range words {
		var o mesh.Offer
		if err := o.UnmarshalText([]byte(strings.TrimSpace(w))); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func certificateOf(c admin.CellView) string {
	if c.Order == "" {
		return string(c.Certificate)
	}
	return fmt.Sprintf("%s (%s)", c.Certificate, c.Order)
}

// guestsOf is what guests of a cell may use.
func guestsOf(g mesh.GuestLimits) string {
	if g == (mesh.GuestLimits{}) {
		return "without limit of their own"
	}
	var out []string
	if g.Devices > 0 {
		out = append(out, fmt.Sprintf("%s of each member", someOf(g.Devices, "device")))
	}
	if g.Connections > 0 {
		out = append(out, fmt.Sprintf("%s each", someOf(g.Connections, "connection")))
	}
	if g.Traffic > 0 {
		out = append(out, size(g.Traffic)+" for each member")
	}
	return strings.Join(out, ", ")
}

func compromisedAt(c admin.CellView, now time.Time) string {
	if c.State != mesh.CellCompromised {
		return ""
	}
	return at(c.Compromised, now)
}

func newCellRotate(a *adminCLI, n noun[admin.CellView]) *cobra.Command {
	var overlap string
	c := &cobra.Command{
		Use: "rotate-paths CELL", Short: "Give a cell's WebSocket and gRPC transports new paths", Args: takes("CELL"), ValidArgsFunction: completeArgs(a, n.refs),
		Long: `Give a cell's WebSocket and gRPC transports new paths. Clients learn them at their
next fetch; until the overlap ends the old paths work too, but no more than two old
ones: who rotates often ends the oldest early.`,
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			o, err := parseOverlap(s, overlap)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.CellRotate, admin.CellRotateRequest{Ref: args[0], Overlap: o})
			if err != nil {
				return err
			}
			if err := changed(s, n, v, "has new paths"); err != nil || v.Replaced.IsZero() {
				return err
			}
			return s.say("the old ones work until %s", at(v.Replaced, s.now))
		}),
	}
	overlapFlag(c, &overlap)
	return c
}

// overlapFlag says for how long what is replaced works.
func overlapFlag(c *cobra.Command, overlap *string) {
	c.Flags().StringVar(overlap, "overlap", "", "for how long the old ones work: 7d, 12h or none (default labels.overlap of the mesh)")
}

// parseOverlap returns nil where nothing was given.
func parseOverlap(s *adminSession, text string) (*mesh.Duration, error) {
	if !s.cmd.Flags().Changed("overlap") {
		return nil, nil
	}
	if text == "none" || text == "0" {
		return new(mesh.Duration(0)), nil
	}
	d, err := mesh.ParseSpan(text)
	if err != nil {
		return nil, usagef("--overlap: %v", err)
	}
	return new(mesh.Duration(d)), nil
}

// someOf is "1 device", "2 devices".
func someOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
