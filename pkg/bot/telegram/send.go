package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	tele "gopkg.in/telebot.v3"
)

// Message is what the bot shows.
type Message struct {
	Text     string // Telegram's HTML
	Keyboard [][]Button
	// ForceReply opens the field of a reply in the user's app.
	ForceReply bool
	Silent     bool
}

// Button has the data that comes back when it is pressed, or a URL.
type Button struct{ Text, Data, URL string }

// Command is one that an app offers to its user.
type Command struct{ Name, Description string }

// longestPause is the most that is waited between two tries of what has no answer:
// one second, two, four and so on. It may then be there twice.
const longestPause = 16 * time.Second

// Send sends a message, and returns its number in the chat.
func (c *Client) Send(ctx context.Context, chat int64, m Message) (int, error) {
	params := m.params(chat)
	params["text"] = m.Text
	var sent tele.Message
	err := c.send(ctx, chat, false, func() error { return c.call(ctx, "sendMessage", params, &sent) })
	return sent.ID, err
}

// Edit replaces a message. It returns false when there is no message of text any
// more that could be: a new one must be sent.
func (c *Client) Edit(ctx context.Context, chat int64, id int, m Message) (bool, error) {
	params := m.params(chat)
	params["text"], params["message_id"] = m.Text, id
	err := c.send(ctx, chat, true, func() error { return c.call(ctx, "editMessageText", params, nil) })
	switch {
	case says(err, "message is not modified"):
		return true, nil
	case says(err, "message to edit not found"), says(err, "message can't be edited"), says(err, "no text in the message"):
		return false, nil
	}
	return err == nil, err
}

// Delete takes a message away, if it is there.
func (c *Client) Delete(ctx context.Context, chat int64, id int) error {
	err := c.send(ctx, chat, true, func() error {
		return c.call(ctx, "deleteMessage", map[string]any{"chat_id": chat, "message_id": id}, nil)
	})
	if says(err, "message to delete not found") || says(err, "message can't be deleted") {
		return nil
	}
	return err
}

// Answer ends the waiting at a button that was pressed; text may be "".
func (c *Client) Answer(ctx context.Context, callback, text string) error {
	return c.call(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": callback, "text": text}, nil)
}

// Photo sends a picture with a caption, and returns its number in the chat.
func (c *Client) Photo(ctx context.Context, chat int64, png []byte, m Message) (int, error) {
	return c.media(ctx, chat, m, func() tele.Sendable {
		return &tele.Photo{File: tele.FromReader(bytes.NewReader(png)), Caption: m.Text}
	})
}

// Document sends a file with a caption, and returns its number in the chat.
func (c *Client) Document(ctx context.Context, chat int64, name string, data []byte, m Message) (int, error) {
	return c.media(ctx, chat, m, func() tele.Sendable {
		return &tele.Document{File: tele.FromReader(bytes.NewReader(data)), FileName: name, Caption: m.Text}
	})
}

// media sends what make makes, anew for each try: a reader is read once.
func (c *Client) media(ctx context.Context, chat int64, m Message, make func() tele.Sendable) (int, error) {
	var id int
	err := c.send(ctx, chat, false, func() error {
		sent, err := c.bot.Send(tele.ChatID(chat), make(), &tele.SendOptions{
			ParseMode: tele.ModeHTML, ReplyMarkup: m.markup(), DisableNotification: m.Silent,
		})
		if err != nil {
			return c.plain(err)
		}
		id = sent.ID
		return nil
	})
	return id, err
}

// SetCommands says which commands apps offer: in a chat, or with 0 in all of them;
// in a language, or with "" in all others.
func (c *Client) SetCommands(ctx context.Context, chat int64, lang string, commands []Command) error {
	list := make([]map[string]string, 0, len(commands))
	for _, cmd := range commands {
		list = append(list, map[string]string{"command": cmd.Name, "description": cmd.Description})
	}
	params := map[string]any{"commands": list, "scope": map[string]any{"type": "all_private_chats"}}
	if chat != 0 {
		params["scope"] = map[string]any{"type": "chat", "chat_id": chat}
	}
	if lang != "" {
		params["language_code"] = lang
	}
	return c.call(ctx, "setMyCommands", params, nil)
}

// Ready is when the next of several messages may be sent to the chat.
func (c *Client) Ready(chat int64) time.Time { return c.pace.ready(chat) }

// send makes a call within the limits, and again when that may help, until ctx
// ends. A change is one of a message that is there.
func (c *Client) send(ctx context.Context, chat int64, change bool, call func() error) error {
	for again := time.Second; ; {
		if err := c.pace.wait(ctx, chat, change); err != nil {
			return err
		}
		err := call()
		switch FailureOf(err) {
		case 0:
			if err == nil {
				c.change(func(s *State) { s.Sent++ })
			}
			return err
		case Limited:
			c.pace.blocked(chat, RetryAfter(err))
		case Network, Server:
			if until, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(until) < again {
				return err
			}
			pause(ctx, again)
			again = min(2*again, longestPause)
		default:
			return err
		}
	}
}

func (m Message) params(chat int64) map[string]any {
	p := map[string]any{"chat_id": chat, "parse_mode": tele.ModeHTML, "link_preview_options": map[string]bool{"is_disabled": true}}
	if m.Silent {
		p["disable_notification"] = true
	}
	if markup := m.markup(); markup != nil {
		text, err := json.Marshal(markup)
		if err == nil { // of strings alone
			p["reply_markup"] = json.RawMessage(text)
		}
	}
	return p
}

func (m Message) markup() *tele.ReplyMarkup {
	if m.ForceReply {
		return &tele.ReplyMarkup{ForceReply: true}
	}
	if len(m.Keyboard) == 0 {
		return nil
	}
	markup := &tele.ReplyMarkup{}
	for _, row := range m.Keyboard {
		line := make([]tele.InlineButton, 0, len(row))
		for _, b := range row {
			line = append(line, tele.InlineButton{Text: b.Text, Data: b.Data, URL: b.URL})
		}
		markup.InlineKeyboard = append(markup.InlineKeyboard, line)
	}
	return markup
}
