package bots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// noticeLife is how long a notice waits to be sent.
	noticeLife = 24 * time.Hour
	// ageEvery is how often it is looked whether any has waited too long.
	ageEvery = time.Minute
	// dropBatch is how many are dropped in one transaction.
	dropBatch = 50
)

var errNotLeading = fmt.Errorf("bots: another server's child sends notices: %w", mesh.ErrDenied)

// Hand gives put what waits, in the order of writing, and then what comes.
func (s *Service) Hand(ctx context.Context, hooks bool, put func(mesh.Notice) error) error {
	t := s.leads()
	if t == nil {
		return errNotLeading
	}
	handed := map[string]bool{}
	for {
		changed := t.outbox.Changed()
		all := t.outbox.All()
		maps.DeleteFunc(handed, func(id string, _ bool) bool { _, waits := all[id]; return !waits })
		for _, id := range slices.Sorted(maps.Keys(all)) {
			n := all[id]
			if handed[id] || !addressed(n, hooks) {
				continue
			}
			handed[id] = true
			if err := put(n); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.over:
			return errNotLeading
		case <-changed:
		}
	}
}

func addressed(n mesh.Notice, hooks bool) bool {
	_, chat := n.Telegram()
	_, hook := n.Hook()
	return hooks && hook || !hooks && chat
}

// Sent takes a notice out of the outbox. Of a question it notes to whom replies to
// it go.
func (s *Service) Sent(ctx context.Context, id string, message int64, dropped bool) error {
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		n, err := store.Get(tx, s.Store.Outbox, id)
		if err != nil {
			return absent(err) // it was too old, or is told a second time
		}
		if n.Kind == mesh.NoticeHelp && message > 0 && !dropped {
			if err := s.thread(tx, n, message); err != nil {
				return err
			}
		}
		return store.Delete(tx, s.Store.Outbox, id)
	})
	if dropped && err == nil {
		s.begin()
		s.dropped.WithLabelValues("refused").Inc()
	}
	return err
}

// thread notes who asked in a message that an operator got.
func (s *Service) thread(tx *store.Tx, n mesh.Notice, message int64) error {
	u, err := store.Get(tx, s.Store.Telegram, mesh.TelegramUserID(n.Params["user"]))
	if err != nil {
		return absent(err) // they have left meanwhile
	}
	chat, _ := n.Telegram()
	th := mesh.TelegramThread{ID: threadID(chat, message), User: u.Telegram, Created: s.now()}
	if err := store.Create(tx, s.Store.Threads, th.ID, th); !errors.Is(err, mesh.ErrExists) {
		return err
	}
	return nil
}

// keepOutbox spreads what goes to many, and drops what has waited too long.
func (s *Service) keepOutbox(ctx context.Context, t *term) error {
	tick := time.NewTicker(ageEvery)
	defer tick.Stop()
	for {
		changed := t.outbox.Changed()
		for _, step := range []func(context.Context, *term) error{s.spreadAll, s.dropOld} {
			if err := step(ctx, t); err != nil && ctx.Err() == nil {
				s.Log.Warn("outbox not kept", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
		}
	}
}

// dropOld drops what nobody could be sent for a day, and tells how much that was.
func (s *Service) dropOld(ctx context.Context, t *term) error {
	var old []string
	for id, n := range t.outbox.All() {
		if s.now().Sub(n.Created) >= noticeLife {
			old = append(old, id)
		}
	}
	slices.Sort(old)
	s.begin()
	for batch := range slices.Chunk(old, dropBatch) {
		dropped := 0
		_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
			dropped = 0
			for _, id := range batch {
				err := store.Delete(tx, s.Store.Outbox, id)
				if absent(err) != nil {
					return err
				}
				if err == nil {
					dropped++
				}
			}
			if dropped == 0 {
				return nil
			}
			return tx.Event(mesh.Event{
				Type: mesh.EventNoticesDropped, Severity: mesh.Warning, Object: botObject,
				Cause:  fmt.Sprintf("messages that could not be sent for a day: %d", dropped),
				Advice: "meshctl admin bot status and meshctl admin alert webhook list say how sending goes",
			})
		})
		if err != nil {
			return err
		}
		s.dropped.WithLabelValues("old").Add(float64(dropped))
	}
	return nil
}

// spreadAll writes notices to many into notices to each.
func (s *Service) spreadAll(ctx context.Context, t *term) error {
	all := t.outbox.All()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(all[id].To, toMembers) {
			continue
		}
		for more := true; more; {
			var err error
			if more, err = s.spread(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// spread writes to the next few whom a notice is for. How far it got is in the
// same transaction, so that each gets it once, whichever servers spread it.
func (s *Service) spread(ctx context.Context, id string) (more bool, err error) {
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		n, err := store.Get(tx, s.Store.Outbox, id)
		if more = err == nil; err != nil {
			return absent(err)
		}
		users, _, err := s.audience(tx, mesh.CellID(strings.TrimPrefix(n.To, toMembers)))
		if err != nil {
			return err
		}
		after := n.Params[paramAfter]
		params := maps.Clone(n.Params)
		delete(params, paramAfter)
		users = slices.DeleteFunc(users, func(u mesh.TelegramUser) bool { return string(u.ID) <= after })
		for _, u := range users[:min(len(users), spreadBatch)] {
			if err := s.tell(tx, mesh.ToTelegram(u.Telegram), n.Kind, params); err != nil {
				return err
			}
			after = string(u.ID)
		}
		if more = len(users) > spreadBatch; !more {
			return store.Delete(tx, s.Store.Outbox, id)
		}
		return store.Update(tx, s.Store.Outbox, id, func(n *mesh.Notice) error {
			n.Params = maps.Clone(n.Params)
			if n.Params == nil {
				n.Params = map[string]string{}
			}
			n.Params[paramAfter] = after
			return nil
		})
	})
	return more && err == nil, err
}
