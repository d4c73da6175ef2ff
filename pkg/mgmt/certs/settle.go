package certs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/chores"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// settle writes what has come of orders. What cannot be written now is written
// later.
func (s *Service) settle(ctx context.Context, t *term) error {
	for {
		s.mu.Lock()
		if len(t.ended) == 0 {
			s.mu.Unlock()
			return nil
		}
		out := t.ended[0]
		f, ok := t.flight[out.ID]
		s.mu.Unlock()
		if ok && f.attempt == out.Attempt {
			if err := s.note(ctx, out, f); err != nil {
				return err
			}
		}
		s.set(func() {
			t.ended = t.ended[1:]
			if ok && f.attempt == out.Attempt {
				delete(t.flight, out.ID)
			}
		})
	}
}

func (s *Service) note(ctx context.Context, out chores.CertOutcome, f flight) error {
	if out.ID == idAccount {
		return s.noteAccount(ctx, out, f)
	}
	now := s.now()
	next := func(o mesh.CertOrder) (mesh.CertOrder, mesh.Event) { return s.next(o, out, f, now) }
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if out.ID == idSubscription {
			return s.noteSubscription(tx, f, next)
		}
		c, err := store.Get(tx, s.Store.CellCerts, mesh.CoreID(out.ID))
		if errors.Is(err, mesh.ErrNotFound) || err == nil && !sameKey(c.Order.Request, f.request) {
			return nil // nobody waits for it any more
		}
		if err != nil {
			return err
		}
		o, event := next(c.Order)
		event.Object = "core/" + out.ID
		return errors.Join(
			store.Update(tx, s.Store.CellCerts, c.Core, func(c *mesh.CellCert) error { c.Order = o; return nil }),
			tell(tx, event))
	})
	return err
}

func (s *Service) noteSubscription(tx *store.Tx, f flight, next func(mesh.CertOrder) (mesh.CertOrder, mesh.Event)) error {
	c, err := store.Get(tx, s.Store.SubCert, store.SubCertKey)
	if errors.Is(err, mesh.ErrNotFound) || err == nil && !sameKey(c.Order.Request, f.request) {
		return nil
	}
	if err != nil {
		return err
	}
	o, event := next(c.Order)
	event.Object = "subscription/certificate"
	return errors.Join(
		store.Update(tx, s.Store.SubCert, store.SubCertKey, func(c *mesh.SubscriptionCert) error {
			c.Order = o
			if answered(o) {
				c.Key, c.Pending = c.Pending, ""
			}
			return nil
		}),
		tell(tx, event))
}

// tell writes an event that is one.
func tell(tx *store.Tx, e mesh.Event) error {
	if e.Type == "" {
		return nil
	}
	return tx.Event(e)
}

// alarmAgain is after how many failures in a row people are told again.
const alarmAgain = 8

// next is an order after its outcome, and the event about it, if any.
func (s *Service) next(o mesh.CertOrder, out chores.CertOutcome, f flight, now time.Time) (mesh.CertOrder, mesh.Event) {
	if out.Failure == "" {
		leaf, err := checkChain(out.Chain, f.name, now)
		if err == nil && !forKey(out.Chain[0], f.request) {
			err = fmt.Errorf("certs: it is for another key: %w", mesh.ErrInvalid)
		}
		if err == nil {
			s.Log.Info("certificate ordered", "name", f.name, "ends", leaf.NotAfter)
			return made(o, out.Chain, leaf.NotAfter, mesh.OrderACME, now),
				mesh.Event{Type: mesh.EventCertOrdered, Severity: mesh.Info, Cause: "the authority has certified " + f.name}
		}
		out.Failure, out.Detail = acme.Chain, mesh.Plain(err)
	}
	why := reason(out)
	o = failed(o, why, now.Add(s.Pace.withDefaults().after(o.Failures+1, out.Failure, out.RetryAfter)), now)
	if o.Failures == 1 {
		s.Log.Warn("certificate not ordered", "name", f.name, "reason", string(out.Failure))
	}
	if o.Failures != 1 && o.Failures != alarmAgain {
		return o, mesh.Event{}
	}
	return o, mesh.Event{Type: mesh.EventCertOrderFailed, Severity: mesh.Warning, Cause: f.name + ": " + why, Advice: adviceOrder}
}

const adviceOrder = "meshctl admin acme status says more, meshctl admin doctor dns what the name servers should say; it is tried again by itself"

func reason(out chores.CertOutcome) string {
	if out.Detail == "" {
		return out.Failure.Text()
	}
	return out.Failure.Text() + ": " + out.Detail
}

// noteAccount notes what is known of the account.
func (s *Service) noteAccount(ctx context.Context, out chores.CertOutcome, f flight) error {
	now := s.now()
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		have, err := store.Get(tx, s.Store.ACMEState, store.ACMEStateKey)
		absent := errors.Is(err, mesh.ErrNotFound)
		if err != nil && !absent {
			return err
		}
		if have.Directory != f.directory {
			have = mesh.ACMEState{Directory: f.directory}
		}
		var event mesh.Event
		if out.Failure == "" {
			have = mesh.ACMEState{Directory: f.directory, Account: out.Account, Identities: out.Identities}
		} else {
			have.Failures++
			have.Failed, have.Reason = now, reason(out)
			have.Next = now.Add(s.Pace.withDefaults().after(have.Failures, out.Failure, out.RetryAfter))
			if have.Failures == 1 {
				event = mesh.Event{Type: mesh.EventCertOrderFailed, Severity: mesh.Warning, Object: "acme/account", Cause: have.Reason, Advice: adviceOrder}
			}
		}
		if absent {
			err = store.Create(tx, s.Store.ACMEState, store.ACMEStateKey, have)
		} else {
			err = store.Update(tx, s.Store.ACMEState, store.ACMEStateKey, func(st *mesh.ACMEState) error { *st = have; return nil })
		}
		return errors.Join(err, tell(tx, event))
	})
	return err
}
