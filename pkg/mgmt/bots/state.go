package bots

import (
	"context"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	botObject = "bot/telegram"
	// stateEvery is how often the state is looked at, and countEvery how often it is
	// written for the sake of its counts alone.
	stateEvery = time.Second
	countEvery = time.Minute
	// downAfter is how long Telegram may be out of reach before that is told.
	downAfter = 5 * time.Minute
)

const (
	adviceShared = "revoke the token with BotFather and give the new one to all servers of this mesh (bot.token-file)"
	adviceToken  = "check bot.token-file on all servers; BotFather shows the token that is right"
	adviceDown   = "meshctl admin bot status says how it goes; bot.api and bot.proxy-file give other ways"
)

// keepState writes how the bot goes, and tells people when it does not, and when it
// does again.
func (s *Service) keepState(ctx context.Context, t *term) error {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	var written mesh.BotState
	var at time.Time
	for {
		st, ev := s.judge(t)
		if counted := s.now().Sub(at) >= countEvery; differs(written, st) || counted && written.Updates+written.Sent+written.Ignored != st.Updates+st.Sent+st.Ignored {
			if err := s.writeState(ctx, st, ev); err != nil {
				if ctx.Err() == nil {
					s.Log.Warn("state of the bot not written", "err", err)
				}
			} else {
				s.set(func() { t.state.Down = st.Down })
				written, at = st, s.now()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-t.changed:
		}
	}
}

// differs looks at more than counts. Failures in a row rise with every attempt.
func differs(a, b mesh.BotState) bool {
	return a.Server != b.Server || a.State != b.State || a.Username != b.Username || a.API != b.API || !a.Down.Equal(b.Down)
}

// judge is the state of now, and what is to be told of it.
func (s *Service) judge(t *term) (mesh.BotState, *mesh.Event) {
	s.mu.Lock()
	st := t.state
	s.mu.Unlock()
	lasted := s.now().Sub(st.Since)
	ev := mesh.Event{Object: botObject}
	switch {
	case st.State == mesh.BotWorking && !st.Down.IsZero():
		ev.Type, ev.Severity, ev.Cause = mesh.EventBotUp, mesh.Info, "the bot works again"
		st.Down = time.Time{}
	case !st.Down.IsZero() || st.State == mesh.BotWorking || st.State == "":
		return st, nil
	case st.State == mesh.BotConflict:
		ev.Type, ev.Severity, ev.Cause, ev.Advice = mesh.EventBotTokenShared, mesh.Critical, "somebody else asks Telegram for the messages to this bot", adviceShared
		st.Down = s.now()
	case st.State == mesh.BotToken:
		ev.Type, ev.Severity, ev.Cause, ev.Advice = mesh.EventBotDown, mesh.Warning, "Telegram does not know the bot's token", adviceToken
		st.Down = s.now()
	case lasted >= downAfter:
		ev.Type, ev.Severity, ev.Cause, ev.Advice = mesh.EventBotDown, mesh.Warning, fmt.Sprintf("no use of Telegram for %v: %s", lasted.Round(time.Minute), inWords(st.State)), adviceDown
		st.Down = s.now()
	default:
		return st, nil
	}
	return st, &ev
}

func inWords(c mesh.BotConnection) string {
	switch c {
	case mesh.BotWorking:
		return "it works"
	case mesh.BotConflict:
		return "somebody else uses the bot's token"
	case mesh.BotLimited:
		return "Telegram wants to be left alone for a while"
	case mesh.BotToken:
		return "Telegram does not know the bot's token"
	case mesh.BotServer:
		return "Telegram's answers are faulty"
	case mesh.BotNetwork:
		return "Telegram does not answer"
	case mesh.BotOther:
	}
	return "it could not be used"
}

// writeState leaves alone up to where people were told, which is written with what
// they are told.
func (s *Service) writeState(ctx context.Context, st mesh.BotState, ev *mesh.Event) error {
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if ev != nil {
			if err := tx.Event(*ev); err != nil {
				return err
			}
		}
		return s.putState(tx, func(now *mesh.BotState) {
			told := now.Told
			*now = st
			now.Told = told
		})
	})
	return err
}

// putState changes the state, or makes it.
func (s *Service) putState(tx *store.Tx, change func(*mesh.BotState)) error {
	_, err := store.Get(tx, s.Store.BotState, store.BotStateKey)
	if absent(err) != nil {
		return err
	}
	if err != nil {
		var st mesh.BotState
		change(&st)
		return store.Create(tx, s.Store.BotState, store.BotStateKey, st)
	}
	return store.Update(tx, s.Store.BotState, store.BotStateKey, func(st *mesh.BotState) error {
		change(st)
		return nil
	})
}
