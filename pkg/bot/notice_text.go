package bot

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/bot/texts"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// noticeText is what a notice says, in HTML. Of a kind that this program does not
// know it says the name: the server may be newer.
func noticeText(t *texts.Texts, n mesh.Notice) string {
	switch n.Kind {
	case mesh.NoticeAlert, mesh.NoticeResolved:
		if n.Alert == nil {
			break
		}
		if n.Kind == mesh.NoticeResolved {
			return resolvedText(t, *n.Alert, n.Params)
		}
		return alertText(t, *n.Alert, n.Created, n.Params)
	case mesh.NoticeEvent, mesh.NoticeTest: // for webhooks
	default:
		if key := noticeKey(n); t.Has(key) {
			return t.HTML(key, noticeParams(t, n)...)
		}
	}
	return t.HTML("notice.other", "kind", string(n.Kind))
}

// noticeKey is the text of a notice; of some kinds there are several.
func noticeKey(n mesh.Notice) string {
	key := "notice." + string(n.Kind)
	switch n.Kind {
	case mesh.NoticeTokenOver, mesh.NoticeCellMoved:
		return key + "." + n.Params["state"]
	case mesh.NoticeLinked:
		return key + "." + n.Params["kind"]
	}
	return key
}

// noticeParams are those of the notice, with what is for programs in it put into
// words.
func noticeParams(t *texts.Texts, n mesh.Notice) []any {
	var out []any
	for name, v := range n.Params {
		switch name {
		case "until":
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				v = t.Day(at)
			}
		case "role":
			if key := "notice.role." + v; t.Has(key) {
				v = t.Plain(key)
			}
		case "name":
			if v == "" {
				v = t.Plain("notice.unnamed")
			}
		}
		out = append(out, name, v)
	}
	return out
}

// alertTitle is the name of an alert's rule, for people.
func alertTitle(t *texts.Texts, a mesh.Alert) string {
	if key := "alert.title." + a.Rule; t.Has(key) {
		return t.Plain(key)
	}
	return a.Rule
}

// alertText is an alert, as it is told at some time.
func alertText(t *texts.Texts, a mesh.Alert, at time.Time, params map[string]string) string {
	var l lines
	l.add(t.HTML("notice.alert", "mark", severityMark(t, a.Severity), "title", alertTitle(t, a), "object", objectText(a.Object, params["name"])))
	l.more(t, params)
	if a.Cause != "" {
		l.add(t.HTML("notice.cause", "cause", a.Cause))
	}
	if a.Advice != "" {
		l.add(t.HTML("notice.advice", "advice", a.Advice))
	}
	l.gap()
	if d := at.Sub(a.Since); d >= time.Hour {
		l.add(t.HTML("notice.lasts", "moment", t.Moment(a.Since), "span", t.Span(d)))
	} else {
		l.add(t.HTML("notice.since", "moment", t.Moment(a.Since)))
	}
	if a.Times > 1 {
		l.add(t.HTML("notice.times", "n", a.Times))
	}
	return l.String()
}

func resolvedText(t *texts.Texts, a mesh.Alert, params map[string]string) string {
	var l lines
	l.add(t.HTML("notice.resolved", "title", alertTitle(t, a), "object", objectText(a.Object, params["name"])))
	l.more(t, params)
	l.gap()
	l.add(t.HTML("notice.lasted", "span", t.Span(a.Changed.Sub(a.Since))))
	return l.String()
}

// more says that the notice stands for several.
func (l *lines) more(t *texts.Texts, params map[string]string) {
	if n, err := strconv.Atoi(params["more"]); err == nil && n > 0 {
		l.add(t.HTML("notice.more", "n", n))
	}
}

func severityMark(t *texts.Texts, s mesh.Severity) string {
	if key := "notice.severity." + string(s); t.Has(key) {
		return t.Plain(key)
	}
	return t.Plain("notice.severity." + string(mesh.Info))
}

// objectText is kind/name, or kind/id of what has no name, to be copied.
func objectText(object, name string) texts.Markup {
	kind, id, ok := strings.Cut(object, "/")
	if !ok || kind == "" || id == "" {
		return texts.Markup(texts.Escape(object))
	}
	return texts.Markup("<code>" + texts.Escape(kind+"/"+cmp.Or(name, id)) + "</code>")
}
