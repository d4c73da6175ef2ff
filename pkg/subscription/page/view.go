package page

import (
	"cmp"
	"html/template"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/qr"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// view is what the template shows: finished texts.
type view struct {
	T     catalogue
	Style template.CSS
	Lang  string
	Other []otherLanguage

	Title, Member, Device string
	Standing, Trouble     string // Trouble is "" when all is well
	Announce, Age         string
	Support               template.URL

	Bars    []bar
	QR      template.HTML
	Link    string
	Systems []System
	Browser browser
	Guest   string // "" when the device is served by its own cell
	Private bool   // some nodes are of cells with an authority of their own
	Formats []document
}

type otherLanguage struct {
	Tag, Name, Query string
}

// bar is how much of something is left; without Max there is no end of it.
type bar struct {
	Label, Text string
	Value, Max  int64
}

// browser is what a browser needs that goes through the mesh by itself.
type browser struct {
	Proxy, User, Password, Door string
	PAC                         string
}

type document struct {
	Name, URL string
}

func newView(p subscription.Profile, r Request, code qr.Code) view {
	tag := choose(r.Language, r.Accept)
	t := texts[tag]
	title := cmp.Or(p.Title, "meshctl")
	v := view{
		T: t, Style: template.CSS(style), Lang: tag.String(), Other: others(tag),
		Title: title, Member: p.Member, Device: p.Device,
		Standing: string(p.Standing), Announce: p.Announce, Support: support(p.SupportURL),
		Bars: []bar{trafficBar(t, p), timeBar(t, p)},
		QR:   template.HTML(code.SVG(t["qr"])), Link: r.Link, Systems: systems(r.Link, title),
		Private: slices.ContainsFunc(p.Nodes, func(n subscription.Node) bool { return n.CA != "" }),
	}
	if p.Standing != mesh.StandingOK {
		v.Trouble = t["standing."+string(p.Standing)]
	} else if len(p.Nodes) == 0 {
		v.Standing, v.Trouble = "none", t["standing.none"]
	}
	if p.Guest() {
		v.Guest = t["guest"]
	}
	if p.Stale {
		v.Age = p.AsOf.UTC().Format("2006-01-02 15:04 UTC")
	}
	v.Browser = browserOf(p, r.Link, v.Private)
	for _, f := range []subscription.Format{subscription.FormatSingBox, subscription.FormatClash, subscription.FormatXray, subscription.FormatPlain, subscription.FormatCurl} {
		v.Formats = append(v.Formats, document{string(f), r.Link + "?format=" + string(f)})
	}
	return v
}

func others(now language.Tag) []otherLanguage {
	var out []otherLanguage
	for _, tag := range languages {
		if tag != now {
			out = append(out, otherLanguage{tag.String(), texts[tag]["language"], "?format=html&lang=" + tag.String()})
		}
	}
	return out
}

// support lets pass what a browser can open; a template takes nothing but the web
// and mail for safe, and operators have chats.
func support(s string) template.URL {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"https", "http", "mailto", "tg"}, u.Scheme) {
		return ""
	}
	return template.URL(u.String())
}

func trafficBar(t catalogue, p subscription.Profile) bar {
	used := max(p.Up, 0)
	used += min(max(p.Down, 0), 1<<62)
	b := bar{Label: t["traffic"], Text: bytesText(t, used) + " · " + t["unlimited"]}
	if p.Limit > 0 {
		b.Value, b.Max = min(used, p.Limit), p.Limit
		b.Text = bytesText(t, used) + " / " + bytesText(t, p.Limit)
	}
	return b
}

// monthDays is what the bar of days shows as full.
const monthDays = 30

func timeBar(t catalogue, p subscription.Profile) bar {
	b := bar{Label: t["time"], Text: t["endless"]}
	if p.Expires.IsZero() {
		return b
	}
	days := max(int64(p.Expires.Sub(p.AsOf)/(24*time.Hour)), 0)
	b.Value, b.Max = min(days, monthDays), monthDays
	b.Text = t["days"] + " " + strconv.FormatInt(days, 10) + " · " + t["until"] + " " + p.Expires.UTC().Format("2006-01-02")
	return b
}

// bytesText is n in the decimal units that mobile networks count in.
func bytesText(t catalogue, n int64) string {
	units := strings.Fields(t["units"])
	v, i := float64(n), 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	digits := 0
	if i > 0 && v < 100 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + units[i]
}

// browserOf is of the first node that a browser can use by itself.
func browserOf(p subscription.Profile, link string, private bool) browser {
	if p.Standing != mesh.StandingOK {
		return browser{}
	}
	for _, n := range p.Nodes {
		if n.Offer.Protocol != mesh.ProtocolHTTP {
			continue
		}
		b := browser{
			Proxy: net.JoinHostPort(string(n.ServerName), strconv.Itoa(int(n.Port))), User: n.User, Password: n.Password.Reveal(),
			Door: string(n.HiddenHost), PAC: link + "?format=pac",
		}
		if private {
			b.PAC += "&ca=installed"
		}
		return b
	}
	return browser{}
}
