package subscription

// Explanation is what a client is served, and why.
type Explanation struct {
	Choice
	Cells    []string // whose nodes are in the document, in order
	Fallback bool     // a cell among them is not the device's own
	Notice   string   // shown instead of nodes or beside them; "" is none
	In       []Node
	Left     []Left // not in the document
}

// Explain says what Render puts into the document that c chose.
func Explain(c Choice, p Profile) Explanation {
	in, left := Select(c.Format, p)
	e := Explanation{Choice: c, Notice: notice(p, in, left), In: in, Left: append(left, p.Hidden...)}
	seen := map[string]bool{}
	for _, n := range in {
		e.Fallback = e.Fallback || n.Guest
		if !seen[n.Cell] {
			seen[n.Cell] = true
			e.Cells = append(e.Cells, n.Cell)
		}
	}
	return e
}
