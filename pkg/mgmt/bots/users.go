package bots

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// userList are all whom the bot knows, in order of id.
func (s *Service) userList(ctx context.Context, req admin.Page) (admin.List[admin.BotUserView], error) {
	users, _, err := s.Store.Telegram.List(ctx)
	if err != nil {
		return admin.List[admin.BotUserView]{}, err
	}
	admins, _, err := s.Store.Admins.List(ctx)
	if err != nil {
		return admin.List[admin.BotUserView]{}, err
	}
	members, _, err := s.Store.Members.List(ctx)
	if err != nil {
		return admin.List[admin.BotUserView]{}, err
	}
	all := make([]admin.BotUserView, 0, len(users))
	for _, u := range users {
		all = append(all, admin.BotUserView{TelegramUser: u, AdminName: admins[u.Admin].Name, MemberName: members[u.Member].Name})
	}
	slices.SortFunc(all, func(a, b admin.BotUserView) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return page(all, req, func(u admin.BotUserView) string { return string(u.ID) })
}

// userSet blocks somebody, lifts that, or ends their links.
func (s *Service) userSet(ctx context.Context, req admin.BotUserSetRequest) (admin.BotUserView, error) {
	var out mesh.TelegramUser
	if (req.Blocked == nil) == !req.Unlink {
		return admin.BotUserView{}, fmt.Errorf("bots: change a user: want either to block or to unlink: %w", mesh.ErrInvalid)
	}
	err := s.change(ctx, "telegram.set", func(tx *store.Tx) error {
		u, err := store.Lookup(tx, s.Store.Telegram, req.Ref)
		if err != nil {
			return err
		}
		if err := mayRule(ctx, u); err != nil {
			return err
		}
		if out = u; req.Unlink {
			out.Admin, out.Member = "", ""
			return s.forget(tx, u)
		}
		if *req.Blocked == (u.State == mesh.TelegramBlocked) {
			return nil
		}
		out.State = ""
		switch {
		case *req.Blocked:
			out.State = mesh.TelegramBlocked
		case u.Admin == "" && u.Member == "":
			out.State = mesh.TelegramDeclined // may ask again
		}
		return store.Update(tx, s.Store.Telegram, u.ID, func(u *mesh.TelegramUser) error {
			u.State = out.State
			return nil
		})
	})
	return admin.BotUserView{TelegramUser: out}, err
}

// mayRule: what an administrator's own Telegram account is, owners and they decide.
func mayRule(ctx context.Context, u mesh.TelegramUser) error {
	c := admin.CallerFrom(ctx)
	if u.Admin == "" || c.Role.Includes(mesh.AdminOwner) || c.Actor == mesh.Actor("admin:"+string(u.Admin)) {
		return nil
	}
	return mesh.WithHint(fmt.Errorf("bots: change a user: only an owner decides about another administrator: %w", mesh.ErrDenied), "ask an owner")
}
