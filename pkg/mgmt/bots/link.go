package bots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	maxLanguage = 35 // of an IETF tag
	maxShown    = 64 // letters of a name that Telegram shows
	maxAsked    = 64
	maxData     = 512
	maxDraft    = 4*maxWords + 64 // of an operator, who writes to many: bytes of the letters, and to whom
	maxWait     = 24 * time.Hour
)

var errCode = mesh.WithHint(fmt.Errorf("bots: link: no such code: it is wrong, was used, or its time is over: %w", mesh.ErrNotFound),
	"ask for another one")

// link uses a code: the user is whom the code is for from now on.
func (s *Service) link(ctx context.Context, req admin.BotLinkRequest) (admin.BotSelf, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.BotSelf{}, err
	}
	s.begin()
	if s.wrong.Empty(p.Number, s.now()) {
		return admin.BotSelf{}, mesh.WithHint(fmt.Errorf("bots: link: too many wrong codes: %w", mesh.ErrDenied), "try again in an hour")
	}
	id, ok := codeID(req.Code)
	if ok {
		err = s.change(ctx, "telegram.link", func(tx *store.Tx) error { return s.useCode(tx, p.Number, id, req) })
	}
	if !ok || errors.Is(err, errCode) {
		s.wrong.Allow(p.Number, s.now())
		return admin.BotSelf{}, errCode
	}
	if err != nil {
		return admin.BotSelf{}, err
	}
	if p, err = s.Person(ctx, p.Number); err != nil {
		return admin.BotSelf{}, err
	}
	return s.self(ctx, p)
}

func (s *Service) useCode(tx *store.Tx, number mesh.TelegramID, id string, req admin.BotLinkRequest) error {
	code, err := store.Get(tx, s.Store.TelegramCodes, id)
	if errors.Is(err, mesh.ErrNotFound) || err == nil && !s.now().Before(code.Expires) {
		return errCode
	}
	if err != nil {
		return err
	}
	if err := store.Delete(tx, s.Store.TelegramCodes, id); err != nil {
		return err
	}
	what, name, err := s.codeFor(tx, code)
	if err != nil {
		return err
	}
	err = s.setUser(tx, number, func(u *mesh.TelegramUser) {
		if code.Admin != "" {
			u.Admin = code.Admin
		} else {
			u.Member = code.Member
		}
		u.Name, u.State = shown(req.Name), ""
		u.Language = cmp.Or(u.Language, language(req.Language))
	})
	if err != nil {
		return err
	}
	return s.tellOperators(tx, number, mesh.NoticeLinked, map[string]string{"name": name, "kind": what})
}

// codeFor is whom a code is for, who must still be admitted.
func (s *Service) codeFor(tx *store.Tx, code mesh.TelegramCode) (what, name string, err error) {
	if code.Admin != "" {
		a, err := store.Get(tx, s.Store.Admins, code.Admin)
		if absent(err) == nil && (err != nil || !admitted(a)) {
			err = errCode
		}
		return "admin", a.Name, err
	}
	m, err := store.Get(tx, s.Store.Members, code.Member)
	if absent(err) == nil && (err != nil || m.State == mesh.MemberArchived) {
		err = errCode
	}
	return "member", m.Name, err
}

// setUser changes what is known of a user, or makes it.
func (s *Service) setUser(tx *store.Tx, number mesh.TelegramID, change func(*mesh.TelegramUser)) error {
	u, err := s.user(tx, number)
	if err != nil {
		return err
	}
	if u.ID == "" {
		u = mesh.TelegramUser{ID: mesh.NewTelegramUserID(), Telegram: number.String(), Created: s.now()}
		change(&u)
		return store.Create(tx, s.Store.Telegram, u.ID, u)
	}
	return store.Update(tx, s.Store.Telegram, u.ID, func(u *mesh.TelegramUser) error {
		change(u)
		return nil
	})
}

func (s *Service) unlink(ctx context.Context, _ admin.None) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	return admin.None{}, s.change(ctx, "telegram.unlink", func(tx *store.Tx) error {
		u, err := s.user(tx, p.Number)
		if err != nil || u.ID == "" {
			return err
		}
		return s.forget(tx, u)
	})
}

// forget ends the links of a user. Of who is not blocked nothing is kept.
func (s *Service) forget(tx *store.Tx, u mesh.TelegramUser) error {
	if err := absent(store.Delete(tx, s.Store.Chats, u.Telegram)); err != nil {
		return err
	}
	if u.State != mesh.TelegramBlocked {
		return store.Delete(tx, s.Store.Telegram, u.ID)
	}
	return store.Update(tx, s.Store.Telegram, u.ID, func(u *mesh.TelegramUser) error {
		u.Admin, u.Member = "", ""
		return nil
	})
}

func (s *Service) language(ctx context.Context, req admin.BotLanguageRequest) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil || p.User.ID == "" {
		return admin.None{}, err // of strangers nothing is kept
	}
	return admin.None{}, s.change(ctx, "telegram.language", func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Telegram, p.User.ID, func(u *mesh.TelegramUser) error {
			u.Language = language(req.Language)
			return nil
		})
	})
}

// expect notes what the bot waits for, or that it waits no more.
func (s *Service) expect(ctx context.Context, req mesh.TelegramChat) (admin.None, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.None{}, err
	}
	req.ID = p.Number.String()
	most := maxData
	if p.Admin.ID != "" {
		most = maxDraft
	}
	if len(req.Asked) > maxAsked || len(req.Data) > most {
		return admin.None{}, fmt.Errorf("bots: note a question: it is too long: %w", mesh.ErrInvalid)
	}
	if last := s.now().Add(maxWait); req.Until.After(last) {
		req.Until = last
	}
	s.begin()
	if req.Asked != "" && p.User.ID == "" && !s.strangers.AllowN(s.now(), 1) {
		return admin.None{}, fmt.Errorf("bots: note a question: too many strangers at once: %w", mesh.ErrUnavailable)
	}
	_, err = s.Store.Update(ctx, func(tx *store.Tx) error {
		if err := absent(store.Delete(tx, s.Store.Chats, req.ID)); err != nil || req.Asked == "" {
			return err
		}
		return store.Create(tx, s.Store.Chats, req.ID, req)
	})
	return admin.None{}, err
}

// shown is a name as Telegram shows it, of bearable length.
func shown(name string) string { return cut(name, maxShown) }

// cut is a text of so many letters at most.
func cut(s string, letters int) string {
	if utf8.RuneCountInString(s) <= letters {
		return s
	}
	return string([]rune(s)[:letters-1]) + "…"
}

// language is a tag of a language, "" when it is none.
func language(tag string) string {
	if len(tag) > maxLanguage {
		return ""
	}
	for _, r := range tag {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' {
			return ""
		}
	}
	return tag
}
