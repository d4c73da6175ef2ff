package bot

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// commonRoutes are for everybody: the first screen, help, the language, and how
// one comes and goes.
func commonRoutes() Routes {
	return Routes{
		Commands: []Command{
			{"start", mesh.BotAnyone, start},
			{"help", mesh.BotAnyone, func(ctx context.Context, s *Session, _ string) error { return showHelp(ctx, s) }},
			{"language", mesh.BotAnyone, language},
			{"link", mesh.BotAnyone, link},
			{"unlink", mesh.BotAnyone, func(ctx context.Context, s *Session, _ string) error { return showUnlink(ctx, s) }},
		},
		Actions: []Action{
			{Name: "home", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ []string) error { return showHome(ctx, s) }},
			{Name: "help", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ []string) error { return showHelp(ctx, s) }},
			{Name: "lang", Need: mesh.BotAnyone, Do: chooseLanguage},
			{Name: "unlink", Need: mesh.BotAnyone, Changes: true, Do: unlink},
		},
		Answers: []Answer{{"link", mesh.BotAnyone, func(ctx context.Context, s *Session, _, text string) error { return useCode(ctx, s, text) }}},
		Talk:    func(ctx context.Context, s *Session, _ string) error { return showHelp(ctx, s) },
		Notice:  noticeScreen,
	}
}

// start is what apps send first; a link that opens the bot may bring a code.
func start(ctx context.Context, s *Session, code string) error {
	if code != "" {
		return useCode(ctx, s, code)
	}
	return showHome(ctx, s)
}

// showHome shows the first screen of whoever it is.
func showHome(ctx context.Context, s *Session) error {
	switch {
	case s.Operator():
		return s.Show(ctx, operatorHome(s))
	case s.Member():
		return showOwn(ctx, s)
	}
	return s.Show(ctx, guestHome(s))
}

func operatorHome(s *Session) Screen {
	text := s.T.HTML("start.operator", "name", s.Self.Admin, "role", s.T.Plain("start.role."+string(s.Self.Role)))
	menu := s.menu()
	rows := append([][]Button{Row(s.button("status", actStatus))}, menu[:len(menu)-1]...) // but for Refresh
	if s.Member() {
		text += "\n" + s.T.HTML("start.both", "member", s.Self.Member)
		rows = append(rows, Row(button(s, "devices", "own"), button(s, "cores", "mycores")))
	}
	return Screen{Text: text, Rows: append(rows, Row(button(s, "guests", "guests"), button(s, "language", "lang")))}
}

// button has a label of the texts.
func button(s *Session, label, action string, args ...string) Button {
	return Button{Label: s.T.Plain("button." + label), Action: action, Args: args}
}

// homeRow leads back to the first screen.
func homeRow(s *Session) []Button { return Row(button(s, "home", "home")) }

func showHelp(ctx context.Context, s *Session) error {
	text := s.T.HTML("help.guest")
	switch {
	case s.Member():
		text = s.T.HTML("help.member")
	case s.Operator():
		text = s.T.HTML("help.operator")
	}
	if s.Member() && s.Operator() {
		text += "\n\n" + s.T.HTML("help.operator")
	}
	return s.Show(ctx, Screen{Text: text, Rows: [][]Button{homeRow(s)}})
}

// language is the command; it may name one.
func language(ctx context.Context, s *Session, lang string) error {
	if lang != "" {
		return chooseLanguage(ctx, s, []string{lang})
	}
	return s.Show(ctx, languageScreen(s))
}

// chooseLanguage shows the languages, or takes the one that was chosen.
func chooseLanguage(ctx context.Context, s *Session, args []string) error {
	if len(args) == 0 {
		return s.Show(ctx, languageScreen(s))
	}
	for _, lang := range texts.Languages() {
		if lang != args[0] {
			continue
		}
		_, err := Call(ctx, s, admin.BotLanguage, admin.BotLanguageRequest{Language: lang})
		if err != nil && !Done(err) {
			return err
		}
		s.Speak(lang)
		s.Toast(s.T.Plain("language.done"))
	}
	return s.Show(ctx, languageScreen(s))
}

func languageScreen(s *Session) Screen {
	var row []Button
	for _, lang := range texts.Languages() {
		row = append(row, Button{Label: s.T.Plain("language.names." + lang), Action: "lang", Args: []string{lang}})
	}
	return Screen{Text: s.T.HTML("language.title"), Rows: [][]Button{row, homeRow(s)}}
}
