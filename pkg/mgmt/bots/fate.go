package bots

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// fateEvery is how often it is looked whether the life of a token is over.
const fateEvery = 5 * time.Second

// keepFates takes tokens that stand in chats away when they were used, revoked, or
// are over, and tells whom they were shown to.
func (s *Service) keepFates(ctx context.Context, shown *store.Mirror[mesh.TokenID, mesh.TelegramShown], tokens *store.Mirror[mesh.TokenID, mesh.Token]) error {
	if shown.Synced(ctx) != nil || tokens.Synced(ctx) != nil {
		return nil // ctx has ended
	}
	tick := time.NewTicker(fateEvery)
	defer tick.Stop()
	for {
		seen, used := shown.Changed(), tokens.Changed()
		for id := range shown.All() {
			if t, ok := tokens.Get(id); ok && t.State(s.now()) == mesh.TokenUnused {
				continue
			}
			if err := s.fate(ctx, id); err != nil && ctx.Err() == nil {
				s.Log.Warn("fate of a token not told", "token", id, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-seen:
		case <-used:
		}
	}
}

// fate tells what became of a token, and has its message deleted. That it stands in
// the chat is forgotten in the same transaction, so that it is told once.
func (s *Service) fate(ctx context.Context, id mesh.TokenID) error {
	_, err := s.Store.Update(ctx, func(tx *store.Tx) error {
		shown, err := store.Get(tx, s.Store.Shown, id)
		if err != nil {
			return absent(err) // another server was faster
		}
		t, err := store.Get(tx, s.Store.Tokens, id)
		if absent(err) != nil {
			return err
		}
		state := t.State(s.now())
		switch {
		case errors.Is(err, mesh.ErrNotFound):
			state = mesh.TokenRevoked // its record was deleted
		case state == mesh.TokenUnused:
			return nil
		}
		n := mesh.Notice{To: mesh.ToTelegram(shown.Chat), Kind: mesh.NoticeTokenOver, Delete: shown.Message,
			Params: map[string]string{"token": string(id), "role": string(t.Role), "name": t.Name, "state": string(state)}}
		if t.Used != nil {
			delete(n.Params, "state")
			n.Kind = mesh.NoticeTokenUsed
			n.Params["node"], n.Params["address"] = t.Used.Node, t.Used.From
			if n.Params["name"], err = s.nameOf(tx, t.Used.Node); err != nil {
				return err
			}
		}
		if err := s.post(tx, n); err != nil {
			return err
		}
		return store.Delete(tx, s.Store.Shown, id)
	})
	return err
}

// nameOf is the label of a node, role/id; "" when it has none any more.
func (s *Service) nameOf(tx *store.Tx, node string) (string, error) {
	role, id, _ := strings.Cut(node, "/")
	switch mesh.Role(role) {
	case mesh.RoleCore:
		c, err := store.Get(tx, s.Store.Cores, mesh.CoreID(id))
		return c.Name, absent(err)
	case mesh.RoleEntry:
		e, err := store.Get(tx, s.Store.Entries, mesh.EntryID(id))
		return e.Name, absent(err)
	case mesh.RoleAdmin, mesh.RoleMgmt:
	}
	return "", nil
}
