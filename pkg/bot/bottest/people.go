package bottest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// patience is how long a test waits for the bot.
const patience = time.Minute

// User is somebody in a private chat with the bot.
type User struct {
	ID   int64
	Name string
	Lang string

	s *Server
}

// User returns somebody, who has opened the chat.
func (s *Server) User(id int64, name, lang string) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &User{id, name, lang, s}
	if c := s.chats[id]; c != nil {
		c.user = u
	} else {
		s.chats[id] = &chat{user: u, messages: map[int]*Message{}}
	}
	return u
}

func (u *User) json() map[string]any {
	return map[string]any{"id": u.ID, "is_bot": false, "first_name": u.Name, "language_code": u.Lang}
}

// Block has the user take no more messages, or again.
func (u *User) Block(blocked bool) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.s.chats[u.ID].blocked = blocked
}

// Write sends a text, and returns the number of the update.
func (u *User) Write(text string) int { return u.Reply(0, text) }

// Reply sends a text as a reply to a message.
func (u *User) Reply(to int, text string) int {
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[u.ID]
	s.lastMsg++
	m := &Message{ID: s.lastMsg, Text: text, Plain: text, replyTo: to}
	c.messages[m.ID] = m
	c.log = append(c.log, Event{Kind: "said", Message: *m})
	return s.put("message", s.messageJSON(c, m))
}

// Press presses a button of a message by its label, and returns the number of the
// update. It panics when there is no such button.
func (u *User) Press(message int, label string) int {
	m := u.Message(message)
	data := m.DataOf(label)
	if data == "" {
		panic(fmt.Sprintf("bottest: message %d has no button %q, but %q", message, label, m.Buttons()))
	}
	return u.PressData(message, data, label)
}

// PressData presses a button of a message with this data, whether there is one or
// not: apps can be made to.
func (u *User) PressData(message int, data, label string) int {
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[u.ID]
	shown := map[string]any{"message_id": message, "date": 0, "chat": map[string]any{"id": u.ID, "type": "private"}}
	if m := c.messages[message]; m != nil && !m.gone {
		shown = s.messageJSON(c, m)
	}
	id := fmt.Sprintf("press-%d", s.lastID+1)
	s.presses[id] = u.ID
	c.log = append(c.log, Event{Kind: "pressed", Text: label})
	return s.put("callback_query", map[string]any{"id": id, "from": u.json(), "message": shown, "chat_instance": "1", "data": data})
}

// Inject puts any update in line, and returns its number.
func (s *Server) Inject(kind string, body map[string]any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(kind, body)
}

// put puts an update in line. Callers hold s.mu.
func (s *Server) put(kind string, body map[string]any) int {
	s.lastID++
	s.updates = append(s.updates, update{s.lastID, kind, body})
	s.change()
	return s.lastID
}

// Skip has the numbers of updates go on from another, which may be lower.
func (s *Server) Skip(to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID, s.offset = to, 0
}

// Message is one of the chat, as it is now; it is empty when there is none.
func (u *User) Message(id int) Message {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if m := u.s.chats[u.ID].messages[id]; m != nil && !m.gone {
		return *m
	}
	return Message{}
}

// Messages are those of the bot's in the chat, as they are now.
func (u *User) Messages() []Message {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	c := u.s.chats[u.ID]
	var out []Message
	for _, id := range slices.Sorted(maps.Keys(c.messages)) {
		if m := c.messages[id]; m.FromBot && !m.gone {
			out = append(out, *m)
		}
	}
	return out
}

// Last is the bot's last message; it is empty when there is none.
func (u *User) Last() Message {
	all := u.Messages()
	if len(all) == 0 {
		return Message{}
	}
	return all[len(all)-1]
}

// Events are what happened in the chat so far.
func (u *User) Events() []Event {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return slices.Clone(u.s.chats[u.ID].log)
}

// Settle waits until the bot has acknowledged all updates: each is handled then,
// its answers are sent.
func (s *Server) Settle(t testing.TB) {
	t.Helper()
	s.Wait(t, "all updates are acknowledged", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.updates) == 0
	})
}

// Wait waits until something is so; what it is called says what.
func (s *Server) Wait(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for !so() {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if so() {
			return
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // it may be about something else
		case <-ctx.Done():
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
