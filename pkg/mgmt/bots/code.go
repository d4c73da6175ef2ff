package bots

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	defaultCodeLife = time.Hour
	maxCodeLife     = 7 * 24 * time.Hour
	codeLetters     = 20 // of base32: 100 bits
)

// newCode makes a code: letters that Telegram takes in a link, and people can type.
func newCode() string { return strings.ToLower(rand.Text()[:codeLetters]) }

// codeID is under what a code is kept. People may have typed spaces, hyphens and
// capitals.
func codeID(code string) (string, bool) {
	if len(code) > 4*codeLetters {
		return "", false
	}
	code = strings.ToLower(strings.NewReplacer(" ", "", "-", "", "\n", "", "\t", "").Replace(code))
	if len(code) != codeLetters {
		return "", false
	}
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:]), true
}

// codeCreate makes a code, which is shown this once: only its hash is kept.
func (s *Service) codeCreate(ctx context.Context, req admin.BotCodeRequest) (admin.BotCode, error) {
	if (req.Admin == "") == (req.Member == "") {
		return admin.BotCode{}, mesh.WithHint(fmt.Errorf("bots: make a code: want either an administrator or a member: %w", mesh.ErrInvalid),
			"meshctl admin bot link ADMINISTRATOR, or --member MEMBER")
	}
	life := time.Duration(req.Life)
	switch {
	case life == 0:
		life = defaultCodeLife
	case life < 0 || life > maxCodeLife:
		return admin.BotCode{}, fmt.Errorf("bots: make a code: life %v: want at most %v: %w", req.Life, mesh.Duration(maxCodeLife), mesh.ErrInvalid)
	}
	text := newCode()
	id, _ := codeID(text)
	code := mesh.TelegramCode{ID: id, Created: s.now(), Expires: s.now().Add(life)}
	err := s.change(ctx, "telegram.code", func(tx *store.Tx) (err error) {
		if req.Admin != "" {
			code.Admin, err = s.bindable(ctx, tx, req.Admin)
		} else {
			code.Member, err = s.linkable(tx, req.Member)
		}
		if err != nil {
			return err
		}
		return store.Create(tx, s.Store.TelegramCodes, id, code)
	})
	if err != nil {
		return admin.BotCode{}, err
	}
	out := admin.BotCode{Code: text, Expires: code.Expires}
	if st, err := s.state(ctx); err == nil && st.Username != "" {
		out.URL = "https://t.me/" + st.Username + "?start=" + text
	}
	return out, nil
}

// bindable is an administrator to whom the caller may bind somebody: themselves,
// or as an owner anybody. Over the bot nobody may.
func (s *Service) bindable(ctx context.Context, tx *store.Tx, ref string) (mesh.AdminID, error) {
	c := admin.CallerFrom(ctx)
	a, err := store.Lookup(tx, s.Store.Admins, ref)
	switch {
	case mesh.Kind(err) == mesh.ErrNotFound && mesh.Hint(err) == "":
		return "", mesh.WithHint(err, "see `meshctl admin administrator list`: one is there from the first login on; or give --member")
	case err != nil:
		return "", err
	case c.Bot != nil:
		return "", mesh.WithHint(fmt.Errorf("bots: make a code: the bot binds nobody to an administrator: %w", mesh.ErrDenied),
			"meshctl admin bot link "+a.Name)
	case !c.Role.Includes(mesh.AdminOwner) && c.Actor != mesh.Actor("admin:"+string(a.ID)):
		return "", mesh.WithHint(fmt.Errorf("bots: make a code: only an owner may bind somebody to another administrator: %w", mesh.ErrDenied), "ask an owner")
	case !admitted(a):
		return "", fmt.Errorf("bots: make a code: administrator %s is suspended or revoked: %w", a.Name, mesh.ErrConflict)
	}
	return a.ID, nil
}

func (s *Service) linkable(tx *store.Tx, ref string) (mesh.MemberID, error) {
	m, err := store.Lookup(tx, s.Store.Members, ref)
	if err == nil && m.State == mesh.MemberArchived {
		err = fmt.Errorf("bots: make a code: member %s is archived: %w", m.Name, mesh.ErrConflict)
	}
	return m.ID, err
}

// state is how the bot goes, as the leader wrote it.
func (s *Service) state(ctx context.Context) (mesh.BotState, error) {
	it, err := s.Store.BotState.Get(ctx, store.BotStateKey)
	return it.Value, absent(err)
}
