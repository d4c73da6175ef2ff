package bot

import (
	"fmt"

	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Screen is what the bot shows in one message.
type Screen struct {
	Text string // HTML of the texts
	Rows [][]Button
	// Reply asks for words, in the user's app; there are no buttons then.
	Reply bool
}

// Button leads to an action, or to a URL.
type Button struct {
	Label  string // plain, of the texts
	Action string // Action.Name
	// Args of the action. Ids of objects are short in a button; anything else
	// counts whole. There is room for two ids, or some 20 bytes.
	Args []string
	URL  string
}

// Row is a row of buttons.
func Row(buttons ...Button) []Button { return buttons }

// limits of Telegram's keyboards.
const maxButtons, maxRow = 100, 8

// keyboard writes the buttons for one user and chat.
func (s *Session) keyboard(rows [][]Button) ([][]telegram.Button, error) {
	var out [][]telegram.Button
	n := 0
	for _, row := range rows {
		if len(row) == 0 {
			continue
		}
		if n += len(row); len(row) > maxRow || n > maxButtons {
			return nil, fmt.Errorf("bot: keyboard: more buttons than there can be: %w", mesh.ErrInvalid)
		}
		line := make([]telegram.Button, 0, len(row))
		for _, b := range row {
			tb := telegram.Button{Text: b.Label, URL: b.URL}
			if b.URL == "" {
				data, err := s.bot.data(s, b)
				if err != nil {
					return nil, err
				}
				tb.Data = data
			}
			line = append(line, tb)
		}
		out = append(out, line)
	}
	return out, nil
}
