package bots

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Person finds who a Telegram user is now: a read from a quorum, of one moment.
func (s *Service) Person(ctx context.Context, number mesh.TelegramID) (admin.BotPerson, error) {
	var p admin.BotPerson
	_, err := s.Store.View(ctx, func(tx *store.Tx) (err error) {
		p, err = s.person(tx, number)
		return err
	})
	return p, err
}

func (s *Service) person(tx *store.Tx, number mesh.TelegramID) (admin.BotPerson, error) {
	p := admin.BotPerson{Number: number}
	cfg, err := store.Get(tx, s.Store.Config, store.ConfigKey)
	if err != nil {
		return p, err
	}
	p.Settings = cfg.Bot
	if p.User, err = s.user(tx, number); err != nil {
		return p, err
	}
	if p.User.Admin != "" {
		a, err := store.Get(tx, s.Store.Admins, p.User.Admin)
		if absent(err) != nil {
			return p, err
		}
		if err == nil && admitted(a) {
			p.Admin = a
		}
	}
	if p.User.Member != "" {
		m, err := store.Get(tx, s.Store.Members, p.User.Member)
		if absent(err) != nil {
			return p, err
		}
		if err == nil && m.State != mesh.MemberArchived {
			p.Member = m
		}
	}
	return p, nil
}

func admitted(a mesh.Administrator) bool { return !a.Revoked && !a.Suspended && a.Role.Rank() > 0 }

// user is what is known of a Telegram user; the zero one: nothing.
func (s *Service) user(tx *store.Tx, number mesh.TelegramID) (mesh.TelegramUser, error) {
	u, err := store.Lookup(tx, s.Store.Telegram, number.String())
	return u, absent(err)
}

// absent leaves ErrNotFound out.
func absent(err error) error {
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	return err
}

// caller is for whom the bot makes this call.
func caller(ctx context.Context) (admin.BotPerson, error) {
	if p := admin.CallerFrom(ctx).Bot; p != nil {
		return *p, nil
	}
	return admin.BotPerson{}, fmt.Errorf("bots: nobody is named for whom the bot calls: %w", mesh.ErrDenied)
}

func (s *Service) who(ctx context.Context, _ admin.BotWhoRequest) (admin.BotSelf, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.BotSelf{}, err
	}
	return s.self(ctx, p)
}

func (s *Service) self(ctx context.Context, p admin.BotPerson) (admin.BotSelf, error) {
	self := admin.BotSelf{
		Standing: p.Standing(), Admin: p.Admin.Name, Role: p.Role(), Member: p.Member.Name,
		State: p.User.State, Language: p.User.Language, Settings: p.Settings,
	}
	if p.Blocked() {
		return admin.BotSelf{Standing: mesh.BotAnyone, State: p.User.State, Settings: p.Settings}, nil
	}
	chat, err := s.Store.Chats.Get(ctx, p.Number.String())
	switch {
	case absent(err) != nil:
		return self, err
	case err == nil && s.now().Before(chat.Value.Until):
		self.Expect = &chat.Value
	}
	return self, nil
}
