package bot

import "strconv"

// pageSize is how many things a screen lists.
const pageSize = 8

// pager lists what is chosen from, a button each, page by page.
type pager struct {
	s     *Session
	page  int
	turn  Button // to another page, which is its last argument
	count int
}

// paged begins a page of count things. What turn leads to gets the number of a
// page as its last argument.
func (s *Session) paged(page string, count int, action string, args ...string) pager {
	n, err := strconv.Atoi(page)
	last := max(0, (count-1)/pageSize)
	if err != nil || n < 0 || n > last {
		n = 0
	}
	return pager{s: s, page: n, count: count, turn: Button{Action: action, Args: args}}
}

// span is which of them are shown.
func (p pager) span() (from, to int) {
	from = p.page * pageSize
	return from, min(from+pageSize, p.count)
}

// rows are a button for each that is shown, and those that turn the page.
func (p pager) rows(button func(i int) Button) [][]Button {
	var out [][]Button
	from, to := p.span()
	for i := from; i < to; i++ {
		b := button(i)
		b.Label = labelled(b.Label)
		out = append(out, Row(b))
	}
	var turns []Button
	if from > 0 {
		turns = append(turns, p.to(p.page-1, "button.previous"))
	}
	if to < p.count {
		turns = append(turns, p.to(p.page+1, "button.next"))
	}
	if len(turns) > 0 {
		out = append(out, turns)
	}
	return out
}

func (p pager) to(page int, label string) Button {
	b := p.turn
	b.Label = p.s.T.Plain(label)
	b.Args = append(append([]string{}, b.Args...), strconv.Itoa(page))
	return b
}

// title says which part of a list is shown, when it is not all.
func (p pager) title(text string) string {
	if p.count <= pageSize {
		return text
	}
	from, to := p.span()
	return text + "  " + p.s.T.HTML("op.page", "from", from+1, "to", to, "n", p.count)
}
