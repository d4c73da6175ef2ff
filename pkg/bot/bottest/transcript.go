package bottest

import (
	"fmt"
	"strings"
)

// Transcript is what was said and done in the chat, from an event on: the user's
// side with ">", the bot's with what it did, buttons below in brackets. Of messages
// it has the markup.
func (u *User) Transcript(from int) string {
	var b strings.Builder
	names := map[int]int{} // messages by how many came before
	name := func(id int) string {
		if _, ok := names[id]; !ok {
			names[id] = len(names) + 1
		}
		return fmt.Sprintf("#%d", names[id])
	}
	for i, e := range u.Events() {
		id := ""
		if e.Message.FromBot {
			id = name(e.Message.ID)
		}
		if i < from {
			continue
		}
		switch e.Kind {
		case "said":
			fmt.Fprintf(&b, "> %s\n", strings.ReplaceAll(e.Message.Text, "\n", "\n> "))
		case "pressed":
			fmt.Fprintf(&b, "> [%s]\n", e.Text)
		case "toast":
			fmt.Fprintf(&b, "(%s)\n", e.Text)
		case "deleted":
			fmt.Fprintf(&b, "deleted %s\n", id)
		default:
			what := e.Kind + " " + id
			if e.Message.File != "" {
				what += " " + e.Message.File
			}
			fmt.Fprintf(&b, "%s\n%s", what, e.Message.picture())
		}
	}
	return b.String()
}

// picture is a message as text.
func (m Message) picture() string {
	var b strings.Builder
	for line := range strings.Lines(m.Text) {
		fmt.Fprintf(&b, "  | %s\n", strings.TrimSuffix(line, "\n"))
	}
	for _, row := range m.Buttons() {
		fmt.Fprintf(&b, "  [%s]\n", strings.Join(row, "] ["))
	}
	return b.String()
}
