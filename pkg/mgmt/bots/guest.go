package bots

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	maxWords    = 2000 // letters of what people write to each other
	firstDevice = "device-1"
)

// join asks the operators to be let in.
func (s *Service) join(ctx context.Context, req admin.BotJoinRequest) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	s.begin()
	switch {
	case p.Settings.NoGuests:
		return admin.None{}, fmt.Errorf("bots: ask to join: nobody new is taken in: %w", mesh.ErrDenied)
	case p.User.Admin != "" || p.User.Member != "":
		return admin.None{}, fmt.Errorf("bots: ask to join: the user is linked already: %w", mesh.ErrConflict)
	case s.asks.Empty(p.Number, s.now()):
		return admin.None{}, mesh.WithHint(fmt.Errorf("bots: ask to join: asked too often: %w", mesh.ErrDenied), "try again tomorrow")
	}
	err = s.change(ctx, "telegram.join", func(tx *store.Tx) error {
		if err := s.roomForGuest(tx, p.Number); err != nil {
			return err
		}
		err := s.setUser(tx, p.Number, func(u *mesh.TelegramUser) {
			u.State, u.Name, u.Language = mesh.TelegramAsked, shown(req.Name), language(req.Language)
		})
		if err != nil {
			return err
		}
		u, err := s.user(tx, p.Number)
		if err != nil {
			return err
		}
		return s.tellOperators(tx, p.Number, mesh.NoticeGuest,
			map[string]string{"user": string(u.ID), "name": u.Name, "text": cut(req.Text, maxWords)})
	})
	if err == nil {
		s.asks.Allow(p.Number, s.now())
	}
	return admin.None{}, err
}

// roomForGuest bounds how many strangers the store knows.
func (s *Service) roomForGuest(tx *store.Tx, number mesh.TelegramID) error {
	users, err := store.List(tx, s.Store.Telegram)
	if err != nil {
		return err
	}
	waiting := 0
	for _, u := range users {
		switch {
		case u.State == mesh.TelegramAsked && u.Telegram == number.String():
			return fmt.Errorf("bots: ask to join: the user waits for an answer already: %w", mesh.ErrExists)
		case u.State == mesh.TelegramAsked:
			waiting++
		}
	}
	if waiting >= maxAsking {
		return mesh.WithHint(fmt.Errorf("bots: ask to join: too many wait for an answer: %w", mesh.ErrUnavailable), "try again later")
	}
	return nil
}

// guests are who waits for an answer, and then who is blocked, oldest first.
func (s *Service) guests(ctx context.Context, req admin.Page) (admin.List[admin.BotGuest], error) {
	users, _, err := s.Store.Telegram.List(ctx)
	if err != nil {
		return admin.List[admin.BotGuest]{}, err
	}
	var all []admin.BotGuest
	for _, u := range users {
		if u.State == mesh.TelegramAsked || u.State == mesh.TelegramBlocked {
			all = append(all, admin.BotGuest{ID: u.ID, User: u.Telegram, Name: u.Name, State: u.State, Created: u.Created})
		}
	}
	slices.SortFunc(all, func(a, b admin.BotGuest) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return page(all, req, func(g admin.BotGuest) string { return string(g.ID) })
}

const defaultPage, maxPage = 100, 1000

// page cuts a list that was made at once.
func page[T any](all []T, req admin.Page, id func(T) string) (admin.List[T], error) {
	limit := req.Limit
	switch {
	case limit < 0:
		return admin.List[T]{}, fmt.Errorf("bots: page of %d: %w", limit, mesh.ErrInvalid)
	case limit == 0:
		limit = defaultPage
	}
	if i := slices.IndexFunc(all, func(v T) bool { return id(v) == req.After }); req.After != "" && i >= 0 {
		all = all[i+1:]
	}
	out := admin.List[T]{Items: append([]T{}, all[:min(len(all), limit, maxPage)]...)}
	if len(out.Items) < len(all) {
		out.Next = id(out.Items[len(out.Items)-1])
	}
	return out, nil
}

// decide answers a guest.
func (s *Service) decide(ctx context.Context, req admin.BotDecideRequest) (admin.BotDecided, error) {
	id, err := mesh.ParseTelegramUserID(req.Ref)
	if err != nil {
		return admin.BotDecided{}, err
	}
	switch req.State {
	case "":
		return s.approve(ctx, id, req)
	case mesh.TelegramDeclined, mesh.TelegramBlocked:
	case mesh.TelegramAsked:
		fallthrough
	default:
		return admin.BotDecided{}, fmt.Errorf("bots: answer a guest: state %q: want declined, blocked or none: %w", mesh.Quotable(string(req.State)), mesh.ErrInvalid)
	}
	return admin.BotDecided{}, s.change(ctx, "telegram."+string(req.State), func(tx *store.Tx) error {
		var was mesh.TelegramUser
		err := store.Update(tx, s.Store.Telegram, id, func(u *mesh.TelegramUser) error {
			was = *u
			if err := undecided(was, req.State); err != nil {
				return err
			}
			u.State = req.State
			return nil
		})
		if err != nil || was.State != mesh.TelegramAsked || req.State != mesh.TelegramDeclined {
			return err
		}
		return s.tell(tx, mesh.ToTelegram(was.Telegram), mesh.NoticeDeclined, nil)
	})
}

// undecided refuses an answer that another operator was faster with. Who is blocked
// may be declined, and ask again.
func undecided(u mesh.TelegramUser, to mesh.TelegramState) error {
	if u.State == mesh.TelegramAsked || u.State == mesh.TelegramBlocked && to == mesh.TelegramDeclined {
		return nil
	}
	return fmt.Errorf("bots: answer a guest: somebody has answered already: %w", mesh.ErrConflict)
}

// approve makes the guest a member, and their first device where that is said.
func (s *Service) approve(ctx context.Context, id mesh.TelegramUserID, req admin.BotDecideRequest) (admin.BotDecided, error) {
	it, err := s.Store.Telegram.Get(ctx, id)
	if err != nil {
		return admin.BotDecided{}, err
	}
	name := req.Name
	if name == "" {
		name = it.Value.Name
	}
	if err := mesh.CheckName(name); err != nil {
		return admin.BotDecided{}, mesh.WithHint(err, "give the member another name")
	}
	defer s.Store.Sealing()()
	d, err := s.Admin.NewDevice(firstDevice, mesh.Limits{})
	if err != nil {
		return admin.BotDecided{}, err
	}
	m := s.Admin.NewMember(name, "")
	err = s.change(ctx, "telegram.approve", func(tx *store.Tx) error {
		var guest mesh.TelegramUser
		err := store.Update(tx, s.Store.Telegram, id, func(u *mesh.TelegramUser) error {
			if err := undecided(*u, ""); err != nil {
				return err
			}
			u.State, u.Member = "", m.ID
			guest = *u
			return nil
		})
		if err != nil {
			return err
		}
		if err := store.Create(tx, s.Store.Members, m.ID, m); err != nil {
			return err
		}
		if req.Cell != "" || req.Core != "" {
			if err := s.Admin.PlaceDevice(tx, d, m, req.Cell, req.Core); err != nil {
				return err
			}
		}
		return s.tell(tx, mesh.ToTelegram(guest.Telegram), mesh.NoticeApproved, map[string]string{"member": m.Name})
	})
	if err != nil {
		return admin.BotDecided{}, err
	}
	v, err := s.Admin.Member(ctx, m.ID)
	return admin.BotDecided{Member: &v}, err
}
