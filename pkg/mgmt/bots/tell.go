package bots

import (
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxOperators bounds how many people one thing is told, so that it fits one
// transaction.
const maxOperators = 30

// operators are the Telegram users who may act as operators, in order of id.
func (s *Service) operators(tx *store.Tx) ([]mesh.TelegramUser, error) {
	users, err := store.List(tx, s.Store.Telegram)
	if err != nil {
		return nil, err
	}
	var out []mesh.TelegramUser
	for _, u := range users {
		if u.Admin == "" || u.State == mesh.TelegramBlocked {
			continue
		}
		a, err := store.Get(tx, s.Store.Admins, u.Admin)
		if absent(err) != nil {
			return nil, err
		}
		if err == nil && admitted(a) && a.Role.Includes(mesh.AdminOperator) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b mesh.TelegramUser) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out[:min(len(out), maxOperators)], nil
}

// tellOperators tells all but one of them. It returns ErrUnavailable when there is
// nobody to tell, if somebody must be.
func (s *Service) tellOperators(tx *store.Tx, but mesh.TelegramID, kind mesh.NoticeKind, params map[string]string) error {
	all, err := s.operators(tx)
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.Telegram == but.String() {
			continue
		}
		if err := s.tell(tx, mesh.ToTelegram(u.Telegram), kind, params); err != nil {
			return err
		}
	}
	return nil
}

// tell puts a notice into the outbox.
func (s *Service) tell(tx *store.Tx, to string, kind mesh.NoticeKind, params map[string]string) error {
	return s.post(tx, mesh.Notice{To: to, Kind: kind, Params: params})
}

func (s *Service) post(tx *store.Tx, n mesh.Notice) error {
	n.Created = s.now()
	n.ID = store.NewTimeID(n.Created)
	return store.Create(tx, s.Store.Outbox, n.ID, n)
}
