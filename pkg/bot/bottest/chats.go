package bottest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/png" // pictures that are sent
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chat is a private one.
type chat struct {
	user     *User
	blocked  bool
	messages map[int]*Message
	log      []Event
}

// Message is one in a chat, as it is now.
type Message struct {
	ID      int
	FromBot bool
	Text    string // with markup, as it was sent
	Plain   string // without
	File    string // name, of a document; "photo" of a picture
	Data    []byte // of the file
	markup  *markup
	gone    bool
	replyTo int
	edited  bool
}

// Buttons are the labels of a message's keyboard, row by row.
func (m Message) Buttons() [][]string {
	var out [][]string
	for _, row := range m.markup.rows() {
		var labels []string
		for _, b := range row {
			labels = append(labels, b.Text)
		}
		out = append(out, labels)
	}
	return out
}

// DataOf is the data of the button with the label, "" when there is none.
func (m Message) DataOf(label string) string {
	for _, row := range m.markup.rows() {
		for _, b := range row {
			if b.Text == label {
				return b.Data
			}
		}
	}
	return ""
}

// Event is something that happened in a chat.
type Event struct {
	Kind    string // said, pressed, sent, edited, deleted, toast
	Message Message
	Text    string // of a press and a toast
}

func (s *Server) chatOf(p params) (*chat, *apiError) {
	id, err := number(p, "chat_id")
	if err != nil {
		return nil, bad("chat_id is empty")
	}
	c := s.chats[id]
	switch {
	case c == nil:
		return nil, bad("chat not found")
	case c.blocked:
		return nil, &apiError{code: http.StatusForbidden, text: "Forbidden: bot was blocked by the user"}
	}
	return c, nil
}

// post puts a message of the bot's into a chat.
func (s *Server) post(c *chat, m *Message) map[string]any {
	s.lastMsg++
	m.ID, m.FromBot = s.lastMsg, true
	c.messages[m.ID] = m
	c.log = append(c.log, Event{Kind: "sent", Message: *m})
	return s.messageJSON(c, m)
}

func (s *Server) sendMessage(p params) (any, *apiError) {
	c, err := s.chatOf(p)
	if err != nil {
		return nil, err
	}
	plain, keys, err := content(p, "text", maxText)
	if err != nil {
		return nil, err
	}
	return s.post(c, &Message{Text: p["text"], Plain: plain, markup: keys}), nil
}

func content(p params, name string, most int) (string, *markup, *apiError) {
	plain, err := checkText(p[name], p["parse_mode"], most)
	if err == nil && plain == "" && most == maxText {
		err = bad("message text is empty")
	}
	if err != nil {
		return "", nil, err
	}
	keys, err := readMarkup(p["reply_markup"])
	return plain, keys, err
}

func (s *Server) editMessageText(p params) (any, *apiError) {
	c, err := s.chatOf(p)
	if err != nil {
		return nil, err
	}
	m, err := c.message(p, "edit")
	if err != nil {
		return nil, err
	}
	plain, keys, err := content(p, "text", maxText)
	switch {
	case err != nil:
		return nil, err
	case m.File != "":
		return nil, bad("there is no text in the message to edit")
	case plain == m.Plain && p["text"] == m.Text && keys.equal(m.markup):
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	m.Text, m.Plain, m.markup, m.edited = p["text"], plain, keys, true
	c.log = append(c.log, Event{Kind: "edited", Message: *m})
	return s.messageJSON(c, m), nil
}

func (s *Server) deleteMessage(p params) (any, *apiError) {
	c, err := s.chatOf(p)
	if err != nil {
		return nil, err
	}
	m, err := c.message(p, "delete")
	if err != nil {
		return nil, err
	}
	m.gone = true
	c.log = append(c.log, Event{Kind: "deleted", Message: *m})
	return true, nil
}

func (c *chat) message(p params, what string) (*Message, *apiError) {
	id, err := number(p, "message_id")
	if err != nil {
		return nil, bad("message identifier is not specified")
	}
	m := c.messages[int(id)]
	switch {
	case m == nil || m.gone:
		return nil, bad("message to %s not found", what)
	case !m.FromBot:
		return nil, bad("message can't be %sed", strings.TrimSuffix(what, "e"))
	}
	return m, nil
}

func (s *Server) answerCallback(p params) (any, *apiError) {
	user, ok := s.presses[p["callback_query_id"]]
	if !ok {
		return nil, bad("query is too old and response timeout expired or query ID is invalid")
	}
	if _, err := checkText(p["text"], "", maxToast); err != nil {
		return nil, bad("MESSAGE_TOO_LONG")
	}
	if p["text"] != "" {
		c := s.chats[user]
		c.log = append(c.log, Event{Kind: "toast", Text: p["text"]})
	}
	return true, nil
}

// file is the one that a parameter is or names.
func file(p params, files map[string][]byte, name string) ([]byte, string) {
	part, attached := strings.CutPrefix(p[name], "attach://")
	if !attached {
		part = name
	}
	return files[part], p[part+"_name"]
}

func (s *Server) sendPhoto(p params, files map[string][]byte) (any, *apiError) {
	c, err := s.chatOf(p)
	if err != nil {
		return nil, err
	}
	data, _ := file(p, files, "photo")
	shape, _, fault := image.DecodeConfig(bytes.NewReader(data))
	if fault != nil || shape.Width+shape.Height > 10_000 {
		return nil, bad("IMAGE_PROCESS_FAILED")
	}
	plain, keys, err := content(p, "caption", maxCaption)
	if err != nil {
		return nil, err
	}
	return s.post(c, &Message{Text: p["caption"], Plain: plain, File: "photo", Data: data, markup: keys}), nil
}

func (s *Server) sendDocument(p params, files map[string][]byte) (any, *apiError) {
	c, err := s.chatOf(p)
	if err != nil {
		return nil, err
	}
	data, name := file(p, files, "document")
	if len(data) == 0 {
		return nil, bad("file must be non-empty")
	}
	plain, keys, err := content(p, "caption", maxCaption)
	if err != nil {
		return nil, err
	}
	return s.post(c, &Message{Text: p["caption"], Plain: plain, File: name, Data: data, markup: keys}), nil
}

var commandName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func (s *Server) setCommands(p params) (any, *apiError) {
	var list []struct{ Command, Description string }
	if json.Unmarshal([]byte(p["commands"]), &list) != nil || len(list) > 100 {
		return nil, bad("can't parse commands")
	}
	var names []string
	for _, c := range list {
		if !commandName.MatchString(c.Command) {
			return nil, bad("BOT_COMMAND_INVALID")
		}
		if n := len([]rune(c.Description)); n < 1 || n > 256 {
			return nil, bad("BOT_COMMAND_DESCRIPTION_INVALID")
		}
		names = append(names, c.Command)
	}
	scope := struct {
		Type string
		Chat int64 `json:"chat_id"`
	}{Type: "default"}
	if p["scope"] != "" && json.Unmarshal([]byte(p["scope"]), &scope) != nil {
		return nil, bad("can't parse BotCommandScope")
	}
	if lang := p["language_code"]; lang != "" && len(lang) != 2 {
		return nil, bad("invalid language code specified")
	}
	where := scope.Type
	if where == "chat" {
		if s.chats[scope.Chat] == nil {
			return nil, bad("chat not found")
		}
		where = strconv.FormatInt(scope.Chat, 10)
	} else if !slices.Contains([]string{"default", "all_private_chats"}, where) {
		return nil, bad("unsupported scope %s", where)
	}
	s.commands[where+"/"+p["language_code"]] = names
	return true, nil
}

// messageJSON is how the API shows a message.
func (s *Server) messageJSON(c *chat, m *Message) map[string]any {
	out := map[string]any{
		"message_id": m.ID, "date": time.Now().Unix(),
		"chat": map[string]any{"id": c.user.ID, "type": "private", "first_name": c.user.Name},
	}
	if m.FromBot {
		out["from"] = map[string]any{"id": 4711, "is_bot": true, "first_name": "Mesh", "username": s.Username}
	} else {
		out["from"] = c.user.json()
	}
	if m.edited {
		out["edit_date"] = time.Now().Unix()
	}
	if m.markup != nil && len(m.markup.Inline) > 0 {
		out["reply_markup"] = m.markup
	}
	switch m.File {
	case "":
		out["text"] = m.Plain
	case "photo":
		out["photo"] = []any{map[string]any{"file_id": fmt.Sprint("photo-", m.ID), "file_unique_id": fmt.Sprint(m.ID), "width": 90, "height": 90}}
		out["caption"] = m.Plain
	default:
		out["document"] = map[string]any{"file_id": fmt.Sprint("document-", m.ID), "file_unique_id": fmt.Sprint(m.ID), "file_name": m.File}
		out["caption"] = m.Plain
	}
	if r := c.messages[m.replyTo]; r != nil && m.replyTo != 0 {
		out["reply_to_message"] = s.messageJSON(c, &Message{ID: r.ID, FromBot: r.FromBot, Plain: r.Plain, File: r.File})
	}
	return out
}
