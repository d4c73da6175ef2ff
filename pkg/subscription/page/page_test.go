package page

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

const link = "https://sub.example.net/s/0123456789abcdefghijklmnopqrstuv"

var evil = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'; alert(1)//`, "</style><script>", "{{.Link}}", "javascript:alert(1)",
	"Иван 🇩🇪 #1 50%", "a\u2028b\x00c\nd", strings.Repeat("long", 500),
}

func profile() subscription.Profile {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := func(o mesh.Offer, ca string) subscription.Node {
		return subscription.Node{
			Name: "Berlin", Cell: "berlin", Host: "entry.example.net", Port: 443, ServerName: "k3v9.b.example.net", HiddenHost: "h7x2.b.example.net",
			Offer: o, User: "device-aaaaaaaaaaaaaaaa", Password: "password-of-the-device", CA: ca,
		}
	}
	http := mesh.Offer{Protocol: mesh.ProtocolHTTP, Transport: mesh.TransportTCP}
	return subscription.Profile{
		Title: "Example Net", Member: "Ada", Device: "phone", Standing: mesh.StandingOK, Announce: "Maintenance on Sunday, 3 to 4.",
		SupportURL: "https://t.me/example", Up: 1_200_000_000, Down: 33_400_000_000, Limit: 100_000_000_000,
		AsOf: now, Expires: now.Add(12*24*time.Hour + time.Minute),
		Nodes: []subscription.Node{n(mesh.Offers()[0], ""), n(http, "")},
	}
}

func draw(t testing.TB, p subscription.Profile, r Request) (string, *html.Node) {
	t.Helper()
	r.Link = link
	b, h, err := Render(p, r)
	if err != nil {
		t.Fatal(err)
	}
	if h.Get("Content-Security-Policy") == "" || b.ContentType != "text/html; charset=utf-8" {
		t.Errorf("type %s, headers %v", b.ContentType, h)
	}
	doc, err := html.Parse(strings.NewReader(string(b.Data)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b.Data), doc
}

func TestThePageSaysWhatAMemberNeeds(t *testing.T) {
	text, _ := draw(t, profile(), Request{})
	for _, want := range []string{
		"Example Net", "Ada", "phone", link, "34.6 GB / 100 GB", "Days left: 12", "2026-03-13", "Maintenance on Sunday",
		"v2rayng://install-sub?url=https%3A%2F%2Fsub.example.net", "hiddify://import/" + link + "#Example%20Net", "sing-box://import-remote-profile?url=",
		"clash://install-config?url=", "streisand://import/", "sub://", "https://t.me/example",
		"k3v9.b.example.net:443", "https://h7x2.b.example.net/", "password-of-the-device", link + "?format=pac", `lang="en"`, "<svg",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, not := range []string{"?format=ca", "ca=installed", `class="trouble"`, "Berlin *"} {
		if strings.Contains(text, not) {
			t.Errorf("there is %q", not)
		}
	}
}

func TestAPrivateCellNeedsItsCertificate(t *testing.T) {
	p := profile()
	p.Nodes[1].CA = "an authority"
	text, _ := draw(t, p, Request{})
	for _, want := range []string{"?format=apple", "?format=ca", "?format=pac&amp;ca=installed", "Hiddify *", "sing-box *"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "v2rayNG *") {
		t.Error("v2rayNG cannot know the authority")
	}
}

func TestWhoIsNotServedReadsWhy(t *testing.T) {
	for _, tag := range languages {
		for _, standing := range []mesh.Standing{mesh.StandingSuspended, mesh.StandingExpired, mesh.StandingExhausted, mesh.StandingGone} {
			p := profile()
			p.Standing, p.Nodes = standing, nil
			text, _ := draw(t, p, Request{Language: tag.String()})
			if want := texts[tag]["standing."+string(standing)]; want == "" || !strings.Contains(text, want) {
				t.Errorf("%s in %s: no %q", standing, tag, want)
			}
			if strings.Contains(text, "password-of") {
				t.Errorf("%s: there are credentials", standing)
			}
		}
	}
	p := profile()
	p.Nodes = nil
	if text, _ := draw(t, p, Request{}); !strings.Contains(text, texts[languages[0]]["standing.none"]) {
		t.Error("no word of there being no server")
	}
}

func TestGuestsAreTold(t *testing.T) {
	p := profile()
	for _, guest := range []bool{false, true} {
		p.Nodes[0].Guest = guest
		for _, tag := range languages {
			if text, _ := draw(t, p, Request{Language: tag.String()}); strings.Contains(text, texts[tag]["guest"]) != guest {
				t.Errorf("a guest %v in %s", guest, tag)
			}
		}
	}
}

func TestLanguages(t *testing.T) {
	for _, tt := range []struct{ name, accept, want string }{
		{"", "", "en"}, {"", "ru", "ru"}, {"", "ru-RU,ru;q=0.9,en;q=0.8", "ru"}, {"", "de, en;q=0.5", "en"}, {"", "uk,ru;q=0.8,en;q=0.1", "ru"},
		{"ru", "en", "ru"}, {"en", "ru", "en"}, {"xx", "ru", "ru"}, {"", "ru;q=x,,,", "en"}, {"", strings.Repeat("ru,", 10_000), "en"},
	} {
		if got := choose(tt.name, tt.accept).String(); got != tt.want && !(len(tt.accept) > maxAccept && got == "ru") {
			t.Errorf("%q, %.40q: %s, want %s", tt.name, tt.accept, got, tt.want)
		}
	}
	text, _ := draw(t, profile(), Request{Accept: "ru"})
	for _, want := range []string{`lang="ru"`, "Осталось дней: 12", "34.6 ГБ / 100 ГБ", `href="?format=html&amp;lang=en"`} {
		if !strings.Contains(text, want) {
			t.Errorf("in Russian there is no %q", want)
		}
	}
}

// Every text is there in every language, and used.
func TestCataloguesAreAlike(t *testing.T) {
	files, err := fs.Glob(catalogues, "messages/*.json")
	if err != nil || len(files) != len(languages) {
		t.Fatalf("%v: %v", files, err)
	}
	var code strings.Builder
	for _, f := range []string{"page.html", "view.go"} {
		b, err := os.ReadFile(filepath.Join(f))
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	first := slices.Sorted(maps.Keys(texts[languages[0]]))
	for _, tag := range languages {
		if got := slices.Sorted(maps.Keys(texts[tag])); !slices.Equal(got, first) {
			t.Errorf("%s has %v", tag, got)
		}
		for k, v := range texts[tag] {
			if strings.TrimSpace(v) == "" {
				t.Errorf("%s: %s is empty", tag, k)
			}
			if !strings.HasPrefix(k, "standing.") && !strings.Contains(code.String(), "."+k) && !strings.Contains(code.String(), `"`+k+`"`) {
				t.Errorf("nobody says %s", k)
			}
		}
	}
	var raw map[string]any
	b, err := catalogues.ReadFile("messages/en.json")
	if err != nil || json.Unmarshal(b, &raw) != nil || len(raw) != len(first) {
		t.Errorf("a name is there twice: %d of %d: %v", len(raw), len(first), err)
	}
}

// Names cannot become markup, nor links anything but what we make of them.
func TestNothingIsInjected(t *testing.T) {
	plain, _ := draw(t, profile(), Request{})
	for _, text := range evil {
		p := profile()
		p.Title, p.Member, p.Device, p.Announce, p.SupportURL = text, text, text, text, text
		for i := range p.Nodes {
			p.Nodes[i].Name, p.Nodes[i].Cell = text, text
		}
		got, doc := draw(t, p, Request{Language: text, Accept: text})
		if a, b := elements(doc), elements(mustParse(t, plain)); !slices.Equal(a, b) && !slices.Equal(a, without(b, "footer", "a")) {
			t.Errorf("%.40q changes the elements:\n%v\n%v", text, a, b)
		}
		for href := range hrefs(doc) {
			if scheme, _, _ := strings.Cut(href, ":"); !slices.Contains([]string{"https", "v2rayng", "hiddify", "sing-box", "clash", "streisand", "sub", "data"}, scheme) && href[0] != '?' {
				t.Errorf("%.40q leads to %.80q", text, href)
			}
		}
		if strings.Contains(got, "<script") || strings.Contains(got, "onerror=alert") && !strings.Contains(got, "&lt;img") {
			t.Errorf("%.40q is in the page as it is", text)
		}
	}
}

func FuzzPage(f *testing.F) {
	for _, text := range evil {
		f.Add(text, "ru")
	}
	plain := elements(mustParse(f, first(draw(f, profile(), Request{}))))
	f.Fuzz(func(t *testing.T, text, accept string) {
		p := profile()
		p.Title, p.Member, p.Device = text+"x", text, text
		_, doc := draw(t, p, Request{Accept: accept})
		if got := elements(doc); !slices.Equal(got, plain) {
			t.Errorf("elements %v", got)
		}
	})
}

func first(s string, _ *html.Node) string { return s }

func mustParse(t testing.TB, s string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// elements are the names of all elements in their order.
func elements(doc *html.Node) []string {
	var out []string
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			out = append(out, n.Data)
		}
	}
	return out
}

// without is list without its last run of names.
func without(list []string, names ...string) []string {
	if len(list) < len(names) || !slices.Equal(list[len(list)-len(names):], names) {
		return list
	}
	return list[:len(list)-len(names)]
}

func hrefs(doc *html.Node) func(func(string) bool) {
	return func(yield func(string) bool) {
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "href" && !yield(a.Val) {
					return
				}
			}
		}
	}
}

// What screen readers and keyboards need, as far as markup shows it.
func TestMarkupIsAccessible(t *testing.T) {
	p := profile()
	p.Nodes[1].CA = "an authority"
	_, doc := draw(t, p, Request{})
	ids, level, h1 := map[string]bool{}, 0, 0
	for n := range doc.Descendants() {
		if id := attr(n, "id"); id != "" && ids[id] {
			t.Errorf("the id %s is there twice", id)
		} else if id != "" {
			ids[id] = true
		}
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if by := attr(n, "aria-labelledby"); by != "" && !ids[by] {
			t.Errorf("%s is labelled by %s, which is not there", n.Data, by)
		}
		switch {
		case regexp.MustCompile(`^h[1-6]$`).MatchString(n.Data):
			now := int(n.Data[1] - '0')
			if now > level+1 {
				t.Errorf("h%d follows h%d", now, level)
			}
			if level = now; now == 1 {
				h1++
			}
		case n.Data == "progress" && attr(n, "aria-labelledby") == "",
			n.Data == "svg" && (attr(n, "role") != "img" || attr(n, "aria-label") == ""),
			n.Data == "a" && strings.TrimSpace(content(n)) == "",
			n.Data == "html" && attr(n, "lang") == "",
			n.Data == "script", n.Data == "img", n.Data == "iframe", n.Data == "form":
			t.Errorf("<%s>: without a label, or not wanted here", n.Data)
		}
		if attr(n, "style") != "" || attr(n, "onclick") != "" {
			t.Errorf("<%s>: the policy forbids its attributes", n.Data)
		}
	}
	if h1 != 1 {
		t.Errorf("%d of h1", h1)
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func content(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
