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

const (
	// toMembers is the address of what goes to many: to the members of a cell, or
	// with nothing behind it to all. Such a notice stands in the outbox as one
	// object, so that it is written once and whole, and the leader spreads it.
	toMembers = "members/"
	// spreadBatch is how many people one transaction writes to.
	spreadBatch = 40
	// paramAfter is after which user the spreading goes on.
	paramAfter = "after"
)

// broadcast says how many people a text would go to, or sends it.
func (s *Service) broadcast(ctx context.Context, req admin.BotBroadcastRequest) (admin.BotBroadcastView, error) {
	if err := words(req.Text); err != nil {
		return admin.BotBroadcastView{}, err
	}
	var cell mesh.CellID
	if req.Cell != "" {
		c, err := s.Store.Cells.Lookup(ctx, req.Cell)
		if err != nil {
			return admin.BotBroadcastView{}, err
		}
		cell = c.ID
	}
	var v admin.BotBroadcastView
	_, err := s.Store.View(ctx, func(tx *store.Tx) error {
		users, unlinked, err := s.audience(tx, cell)
		v = admin.BotBroadcastView{Recipients: len(users), Unlinked: unlinked}
		return err
	})
	if err != nil || !req.Send {
		return v, err
	}
	if v.Recipients == 0 {
		return v, fmt.Errorf("bots: broadcast: nobody whom it concerns has linked a Telegram account: %w", mesh.ErrConflict)
	}
	return v, s.change(ctx, "telegram.broadcast", func(tx *store.Tx) error {
		if cell != "" {
			if err := tx.Accessed("cell/" + string(cell)); err != nil {
				return err
			}
		}
		return s.tell(tx, toMembers+string(cell), mesh.NoticeBroadcast, map[string]string{"text": req.Text})
	})
}

// audience are the linked members of a cell, or of all, in order of id; and how
// many members are not linked.
func (s *Service) audience(tx *store.Tx, cell mesh.CellID) (users []mesh.TelegramUser, unlinked int, err error) {
	members, err := store.List(tx, s.Store.Members)
	if err != nil {
		return nil, 0, err
	}
	meant := map[mesh.MemberID]bool{}
	for id, m := range members {
		if m.State != mesh.MemberArchived && cell == "" {
			meant[id] = true
		}
	}
	if cell != "" {
		devices, err := store.List(tx, s.Store.Devices)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range devices {
			if d.Assigned.Cell == cell && d.State != mesh.DeviceRevoked && members[d.Member].State != mesh.MemberArchived {
				meant[d.Member] = true
			}
		}
	}
	all, err := store.List(tx, s.Store.Telegram)
	if err != nil {
		return nil, 0, err
	}
	linked := map[mesh.MemberID]bool{}
	for _, u := range all {
		if meant[u.Member] && u.State != mesh.TelegramBlocked {
			users = append(users, u)
			linked[u.Member] = true
		}
	}
	slices.SortFunc(users, func(a, b mesh.TelegramUser) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return users, len(meant) - len(linked), nil
}
