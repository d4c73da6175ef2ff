package alerts

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// maxChats bounds whom an alert is told, in one transaction, and maxQuiet how
	// many changes of which nobody hears are one.
	maxChats = 60
	maxQuiet = 30
)

// write stores changes, each with its event and its notices in one transaction:
// whoever takes over tells nothing twice, and leaves nothing out.
func (l *look) write(ctx context.Context, have map[string]mesh.Alert, changes []alert.Change) error {
	var errs []error
	for len(changes) > 0 {
		n := 1
		for changes[0].Tell == "" && n < min(maxQuiet, len(changes)) && changes[n].Tell == "" {
			n++
		}
		errs = append(errs, l.writeSome(ctx, have, changes[:n]))
		changes = changes[n:]
	}
	return errors.Join(errs...)
}

func (l *look) writeSome(ctx context.Context, have map[string]mesh.Alert, changes []alert.Change) error {
	var done []alert.Change
	_, err := l.Store.Update(ctx, func(tx *store.Tx) error {
		done = nil
		to, err := l.recipients(tx, slices.ContainsFunc(changes, func(c alert.Change) bool { return c.Tell != "" }))
		if err != nil {
			return err
		}
		for _, c := range changes {
			before, ok := have[c.Alert.ID]
			same, err := l.put(tx, before, ok, c)
			if err != nil {
				return err
			}
			if !same {
				continue // somebody was faster: the next step sees it
			}
			if err := l.tell(tx, to, c); err != nil {
				return err
			}
			done = append(done, c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range done {
		if c.Forget || c.Alert.State == have[c.Alert.ID].State {
			continue
		}
		l.Log.Info("alert changed", "rule", c.Alert.Rule, "object", c.Alert.Object, "to", c.Alert.State)
	}
	return nil
}

// put stores one alert, if it is still what the step was taken from.
func (l *look) put(tx *store.Tx, before mesh.Alert, existed bool, c alert.Change) (same bool, err error) {
	now, err := store.Get(tx, l.Store.Alerts, c.Alert.ID)
	switch {
	case errors.Is(err, mesh.ErrNotFound):
		if existed || c.Forget {
			return false, nil
		}
		return true, store.Create(tx, l.Store.Alerts, c.Alert.ID, c.Alert)
	case err != nil:
		return false, err
	case !existed || !equal(before, now):
		return false, nil
	case c.Forget:
		return true, store.Delete(tx, l.Store.Alerts, c.Alert.ID)
	}
	return true, store.Update(tx, l.Store.Alerts, c.Alert.ID, func(a *mesh.Alert) error { *a = c.Alert; return nil })
}

// equal compares two alerts as they are stored.
func equal(a, b mesh.Alert) bool {
	if (a.Acknowledged == nil) != (b.Acknowledged == nil) {
		return false
	}
	a.Acknowledged, b.Acknowledged = nil, nil
	return a == b
}

// recipients is who may be told.
type recipients struct {
	chats []string // numbers, in order
	hooks []mesh.Webhook
}

// recipients are the administrators who are linked with Telegram and admitted, and
// the webhooks.
func (l *look) recipients(tx *store.Tx, needed bool) (recipients, error) {
	var to recipients
	if !needed {
		return to, nil
	}
	users, err := store.List(tx, l.Store.Telegram)
	if err != nil {
		return to, err
	}
	admins, err := store.List(tx, l.Store.Admins)
	if err != nil {
		return to, err
	}
	for _, u := range users {
		a, ok := admins[u.Admin]
		if ok && u.State != mesh.TelegramBlocked && !a.Suspended && !a.Revoked {
			to.chats = append(to.chats, u.Telegram)
		}
	}
	slices.Sort(to.chats)
	to.chats = to.chats[:min(len(to.chats), maxChats)]
	hooks, err := store.List(tx, l.Store.Hooks)
	to.hooks = slices.Collect(maps.Values(hooks))
	return to, err
}

// tell writes what people hear of one change.
func (l *look) tell(tx *store.Tx, to recipients, c alert.Change) error {
	now := l.now()
	if c.Event != "" {
		e := mesh.Event{Time: now, Type: c.Event, Severity: c.Alert.Severity, Object: c.Alert.Object, Cause: c.Alert.Cause, Advice: c.Alert.Advice}
		if c.Alert.State == mesh.AlertResolved {
			e.Severity, e.Advice = mesh.Info, ""
			e.Cause = "it is over: " + c.Alert.Cause
		}
		if err := tx.Event(e); err != nil {
			return err
		}
	}
	if c.Tell == "" {
		return nil
	}
	v := mesh.Notice{Kind: c.Tell, Created: now, Alert: &c.Alert}
	if c.More > 0 {
		v.Params = map[string]string{"more": strconv.Itoa(c.More)}
	}
	if len(to.chats) > 0 && alert.Reaches(c.Alert.Severity, mesh.Warning) {
		name, err := l.Store.NameOf(tx, c.Alert.Object)
		if err != nil {
			return err
		}
		said := v // people read names, programs ids
		if said.Params = maps.Clone(v.Params); name != "" {
			if said.Params == nil {
				said.Params = map[string]string{}
			}
			said.Params["name"] = name
		}
		for _, chat := range to.chats {
			if err := l.queue(tx, said, mesh.ToTelegram(chat), now); err != nil {
				return err
			}
		}
	}
	for _, h := range to.hooks {
		if alert.Reaches(c.Alert.Severity, h.Least) {
			if err := l.queue(tx, v, mesh.ToHook(h.Name), now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) queue(tx *store.Tx, n mesh.Notice, to string, at time.Time) error {
	n.ID, n.To = store.NewTimeID(at), to
	return store.Create(tx, s.Store.Outbox, n.ID, n)
}
