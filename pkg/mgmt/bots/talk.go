package bots

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// help brings what a member writes to the operators, who answer by replying.
func (s *Service) help(ctx context.Context, req admin.BotHelpRequest) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	if err := words(req.Text); err != nil {
		return admin.None{}, err
	}
	s.begin()
	if !s.helps.Allow(p.Member.ID, s.now()) {
		return admin.None{}, mesh.WithHint(fmt.Errorf("bots: ask for help: asked too often: %w", mesh.ErrDenied), "try again later")
	}
	return admin.None{}, s.change(ctx, "telegram.help", func(tx *store.Tx) error {
		all, err := s.operators(tx)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("bots: ask for help: no operator has linked a Telegram account: %w", mesh.ErrUnavailable)
		}
		if err != nil {
			return err
		}
		return s.tellOperators(tx, 0, mesh.NoticeHelp, map[string]string{
			"user": string(p.User.ID), "name": shown(req.Name), "member": p.Member.Name, "text": req.Text,
		})
	})
}

func words(text string) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("bots: the text is empty: %w", mesh.ErrInvalid)
	}
	if n := len([]rune(text)); n > maxWords {
		return fmt.Errorf("bots: the text has %d letters: want at most %d: %w", n, maxWords, mesh.ErrInvalid)
	}
	return nil
}

// threadID is under what it is kept to whom replies to a message go.
func threadID(chat string, message int64) string { return chat + "." + strconv.FormatInt(message, 10) }

// answer brings an operator's reply to whoever asked.
func (s *Service) answer(ctx context.Context, req admin.BotAnswerRequest) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	if err := words(req.Text); err != nil {
		return admin.None{}, err
	}
	return admin.None{}, s.change(ctx, "telegram.answer", func(tx *store.Tx) error {
		thread, err := store.Get(tx, s.Store.Threads, threadID(p.Number.String(), req.Message))
		if absent(err) != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("bots: answer: nobody's question is in that message, or it is too old: %w", mesh.ErrNotFound)
		}
		if err := tx.Accessed(mesh.ToTelegram(thread.User)); err != nil {
			return err
		}
		return s.tell(tx, mesh.ToTelegram(thread.User), mesh.NoticeAnswer, map[string]string{"text": req.Text})
	})
}

// shown notes where a join token stands, so that it can be taken away.
func (s *Service) tokenShown(ctx context.Context, req mesh.TelegramShown) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	if req.Message <= 0 {
		return admin.None{}, fmt.Errorf("bots: note where a token stands: message %d: %w", req.Message, mesh.ErrInvalid)
	}
	req.Chat = p.Number.String()
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		t, err := store.Get(tx, s.Store.Tokens, req.Token)
		if err != nil {
			return err
		}
		req.Expires = t.Expires
		if err := absent(store.Delete(tx, s.Store.Shown, req.Token)); err != nil {
			return err
		}
		return store.Create(tx, s.Store.Shown, req.Token, req)
	})
	return admin.None{}, err
}
