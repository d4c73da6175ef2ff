package texts

// form is one of the plural forms of CLDR that our languages have.
type form string

const (
	one   form = "one"
	few   form = "few"
	many  form = "many"
	other form = "other"
)

// message is a text in its plural forms; one without them has other alone.
type message map[form]string

func (m message) of(lang string, n any) string {
	if s, ok := m[plural(lang, count(n))]; ok {
		return s
	}
	return m[other]
}

// count is how many n says there are.
func count(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(min(n, 1<<62))
	}
	return 0
}

func plural(lang string, n int64) form {
	n = max(n, -n)
	if lang != "ru" {
		if n == 1 {
			return one
		}
		return other
	}
	tens, units := n%100, n%10
	switch {
	case units == 1 && tens != 11:
		return one
	case units >= 2 && units <= 4 && (tens < 12 || tens > 14):
		return few
	}
	return many
}

// pluralForms of a language, each of which a text with plurals has.
func pluralForms(lang string) []form {
	if lang == "ru" {
		return []form{one, few, many}
	}
	return []form{one, other}
}
