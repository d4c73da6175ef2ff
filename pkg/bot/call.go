package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Call calls the server for the user. A change is made once, however often the
// update comes: the second time the error is Done.
func Call[Req, Resp any](ctx context.Context, s *Session, m admin.Method[Req, Resp], req Req) (Resp, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, admin.BotUserHeader, s.User.String(), admin.BotUpdateHeader, s.callKey(m.Name))
	return m.Call(ctx, s.bot.Server, req)
}

// Done says that a change was made before, by the same update or the same button:
// show how things are.
func Done(err error) bool {
	return mesh.Kind(err) == mesh.ErrExists && strings.Contains(err.Error(), admin.ErrDone)
}

// maxDetail is how much operators read of a server's own words, in letters.
const maxDetail = 400

var errNoSecrets = fmt.Errorf("bot: secrets are kept out of chats: %w", mesh.ErrDenied)

// Fail tells the user that something did not work, and what to do. It returns err
// when that could not be told.
func (s *Session) Fail(ctx context.Context, err error) error {
	_, told := s.Say(ctx, Screen{Text: s.reason(err)})
	return told
}

// reason is why something failed, in the user's words. What a server says of
// objects, only operators see.
func (s *Session) reason(err error) string {
	key := "internal"
	switch {
	case errors.Is(err, errNoSecrets):
		return s.T.HTML("fail.no-secrets")
	case Done(err):
		return s.T.HTML("fail.done")
	case errors.Is(err, context.DeadlineExceeded):
		key = "unavailable"
	default:
		for kind, k := range map[error]string{
			mesh.ErrInvalid: "invalid", mesh.ErrNotFound: "not-found", mesh.ErrExists: "exists",
			mesh.ErrConflict: "conflict", mesh.ErrUnavailable: "unavailable", mesh.ErrDenied: "denied",
		} {
			if mesh.Kind(err) == kind {
				key = k
			}
		}
	}
	text := s.T.HTML("fail." + key)
	if s.Operator() && key != "unavailable" && key != "internal" {
		text += "\n" + s.T.HTML("fail.detail", "detail", cut(mesh.Plain(err), maxDetail))
	}
	return text
}

// cut is a text of so many letters at most.
func cut(s string, letters int) string {
	if r := []rune(s); len(r) > letters {
		return string(r[:letters-1]) + "…"
	}
	return s
}
