package bot

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// link is the command; it may bring the code.
func link(ctx context.Context, s *Session, code string) error {
	if code != "" {
		return useCode(ctx, s, code)
	}
	return s.Ask(ctx, "link", "", Screen{Text: s.T.HTML("link.ask"), Reply: true})
}

// useCode links the user to whom the code is for.
func useCode(ctx context.Context, s *Session, code string) error {
	before := s.Self
	self, err := Call(ctx, s, admin.BotLink, admin.BotLinkRequest{Code: code, Name: s.Name, Language: s.Lang})
	switch mesh.Kind(err) {
	case mesh.ErrNotFound:
		return s.Show(ctx, Screen{Text: s.T.HTML("link.wrong")})
	case mesh.ErrDenied:
		return s.Show(ctx, Screen{Text: s.T.HTML("link.slow")})
	}
	if Done(err) {
		return showHome(ctx, s)
	}
	if err != nil {
		return err
	}
	s.Self = self
	text := s.T.HTML("link.member", "member", self.Member)
	if self.Admin != "" && (self.Admin != before.Admin || self.Member == before.Member) {
		text = s.T.HTML("link.admin", "admin", self.Admin)
	}
	if _, err := s.Say(ctx, Screen{Text: text}); err != nil {
		return err
	}
	return showHome(ctx, s)
}

// showUnlink says what unlinking would do.
func showUnlink(ctx context.Context, s *Session) error {
	if !s.Operator() && !s.Member() {
		return s.Show(ctx, guestHome(s))
	}
	what := s.T.Plain("unlink.member")
	if s.Operator() {
		what = s.T.Plain("unlink.admin")
	}
	return s.Show(ctx, Screen{
		Text: s.T.HTML("unlink.confirm", "what", what),
		Rows: [][]Button{Row(Button{Label: s.T.Plain("unlink.button"), Action: "unlink"}, button(s, "cancel", "home"))},
	})
}

func unlink(ctx context.Context, s *Session, _ []string) error {
	_, err := Call(ctx, s, admin.BotUnlink, admin.None{})
	if err != nil && !Done(err) {
		return err
	}
	return s.Show(ctx, Screen{Text: s.T.HTML("unlink.done")})
}
