package certs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// watch tells people of certificates that end soon, and forgets those of cores
// that are gone.
func (s *Service) watch(ctx context.Context) error {
	now := s.now()
	cores, err := s.publicCores(ctx, func(mesh.Cell) bool { return true })
	if err != nil {
		return err
	}
	for _, c := range cores {
		advice := "certificates of this cell are uploaded: meshctl admin cell request " + string(c.Cell) + ", then meshctl admin cell certificate"
		if c.Order.By == mesh.OrderACME {
			advice = adviceOrder
		}
		if err := s.tellEnd(ctx, "core/"+string(c.Core), c.Order.Issued, c.Order.NotAfter, now, "certificate for "+wildcard(c.Suffix), advice); err != nil {
			return err
		}
	}
	if sub, ok := s.sub.Get(store.SubCertKey); ok && s.Settings().Certificate == mesh.SubscriptionACME {
		if err := s.tellEnd(ctx, "subscription/certificate", sub.Order.Issued, sub.Order.NotAfter, now, "certificate for "+string(sub.Name), adviceOrder); err != nil {
			return err
		}
	}
	return s.forget(ctx)
}

// watchFiles is the same for this server's own files.
func (s *Service) watchFiles(ctx context.Context) error {
	h := s.files.Load()
	if h == nil || h.cert == nil || s.Settings().Certificate == mesh.SubscriptionACME {
		return nil
	}
	leaf := h.cert.Leaf
	return s.tellEnd(ctx, "server/"+string(s.Server), leaf.NotBefore, leaf.NotAfter, s.now(), "certificate of the subscription service",
		"replace the files of subscription.cert-file and subscription.key-file on this server")
}

// urgency is how near an end is: "" is far, for most of the last third is for
// whoever renews.
func urgency(begin, end, now time.Time) mesh.Severity {
	life, left := end.Sub(begin), end.Sub(now)
	switch {
	case end.IsZero():
		return ""
	case left <= life/12:
		return mesh.Critical
	case left <= life/4:
		return mesh.Warning
	}
	return ""
}

// tellEnd tells of one end once, and once more when it is urgent.
func (s *Service) tellEnd(ctx context.Context, object string, begin, end, now time.Time, what, advice string) error {
	level := urgency(begin, end, now)
	if level == "" {
		return nil
	}
	first, err := s.Store.UseOnce(ctx, fmt.Sprint("client certificate ", object, " ", end.Unix(), " ", level))
	if err != nil || !first {
		return err
	}
	verb := "ends"
	if !now.Before(end) {
		verb = "ended"
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		return tx.Event(mesh.Event{Type: mesh.EventCertExpiring, Severity: level, Object: object,
			Cause: fmt.Sprintf("%s %s at %s", what, verb, end.UTC().Format(time.RFC3339)), Advice: advice})
	})
	return err
}

// forget removes what is on record for cores that are gone.
func (s *Service) forget(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(s.cells.All())) {
		_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
			core, err := store.Get(tx, s.Store.Cores, id)
			if err == nil && !core.Revoked || err != nil && !errors.Is(err, mesh.ErrNotFound) {
				return err
			}
			return store.Delete(tx, s.Store.CellCerts, id)
		})
		if err != nil && !errors.Is(err, mesh.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Problems are what somebody should look at, in words.
func (s *Service) Problems() []string {
	s.begin()
	now := s.now()
	var out []string
	say := func(what string, o mesh.CertOrder) {
		switch {
		case o.Failures > 0:
			out = append(out, fmt.Sprintf("%s: ordering failed, %d times in a row: %s", what, o.Failures, o.Reason))
		case urgency(o.Issued, o.NotAfter, now) != "":
			out = append(out, fmt.Sprintf("%s: it ends at %s", what, o.NotAfter.UTC().Format(time.RFC3339)))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.cells.All())) {
		c, _ := s.cells.Get(id)
		say("certificate of core "+string(id)+" for "+wildcard(c.Suffix), c.Order)
	}
	set := s.Settings()
	switch h := s.files.Load(); {
	case set.Name == "":
	case set.Certificate == mesh.SubscriptionACME:
		c, _ := s.sub.Get(store.SubCertKey)
		say("certificate of the subscription service", c.Order)
	case h == nil:
		out = append(out, "subscription service: this server has no certificate for "+string(set.Name)+": set subscription.cert-file and subscription.key-file, or order one (subscription.certificate=acme)")
	case h.problem != "":
		out = append(out, "certificate of the subscription service: "+h.problem)
	case h.cert.Leaf.VerifyHostname(string(set.Name)) != nil:
		out = append(out, "certificate of the subscription service: it is not for "+string(set.Name))
	case urgency(h.cert.Leaf.NotBefore, h.cert.Leaf.NotAfter, now) != "":
		out = append(out, "certificate of the subscription service: it ends at "+h.cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return out
}
