package mgmt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/alerts"
)

// keepAlerts gives alerts and webhooks what they need of this server.
func (r *runtime) keepAlerts() {
	r.alerts = &alerts.Service{
		Store: r.store, Server: r.keys.Server, Servers: r.cluster.lines, Ends: r.endsOf, Log: r.log.With("unit", "alerts"),
	}
	r.hooks = &alerts.Hooks{Store: r.store, Wake: r.foreman.Wake, Log: r.log.With("unit", "webhooks")}
	r.foreman.Hooks = r.hooks
}

func (r *runtime) runAlerts(ctx context.Context) error { return r.alerts.Run(ctx) }

// clientLate is the part of its life that a certificate for clients has left when
// somebody should look why there is no other.
const clientLate = 4

// endsOf are the certificates that should have been replaced by now: those of
// nodes, this server's own authorities, and what clients see.
func (r *runtime) endsOf(ctx context.Context) ([]alert.Condition, error) {
	now := r.now()
	k := &keeper{store: r.store}
	certs, _, err := r.store.Certs.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []alert.Condition
	add := func(object, what string, end time.Time, advice string) {
		out = append(out, alert.Condition{Rule: alert.CertExpiring, Object: object,
			Cause: fmt.Sprintf("%s ends at %s", what, end.UTC().Format(time.RFC3339)), Advice: advice})
	}
	last := lastOf(certs)
	for _, node := range slices.Sorted(maps.Keys(last)) {
		if !late(last[node], now) {
			continue
		}
		gone, err := k.gone(ctx, node)
		if err != nil {
			return nil, err
		}
		if !gone {
			add(node, "its certificate", last[node].NotAfter, "")
		}
	}
	for _, c := range r.certificates() {
		if c.What != certNode && c.Ends.Sub(now) < warnCA {
			add("server/"+string(r.keys.Server), "the certificate "+c.What, c.Ends, "see the runbook: it takes the root passphrase")
		}
	}
	return out, r.clientEnds(ctx, now, add)
}

func (r *runtime) clientEnds(ctx context.Context, now time.Time, add func(object, what string, end time.Time, advice string)) error {
	const advice = "meshctl admin acme status says why; with certificates that are uploaded: meshctl admin cell request"
	overdue := func(o mesh.CertOrder) bool {
		return len(o.Chain) > 0 && o.NotAfter.Sub(now) < o.NotAfter.Sub(o.Issued)/clientLate
	}
	cells, _, err := r.store.CellCerts.List(ctx)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(cells)) {
		if c := cells[id]; overdue(c.Order) {
			add("core/"+string(id), "the certificate for *."+string(c.Suffix), c.Order.NotAfter, advice)
		}
	}
	subs, _, err := r.store.SubCert.List(ctx)
	for _, c := range subs {
		if overdue(c.Order) {
			add("subscription/certificate", "the certificate of the subscription service", c.Order.NotAfter, advice)
		}
	}
	return err
}
