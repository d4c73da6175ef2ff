package page

import (
	"encoding/base64"
	"html/template"
	"net/url"
	"strings"
)

// App is a program that takes a subscription by a link of its own.
type App struct {
	Name string
	Link template.URL
	// Private says that it takes cells with an authority of their own.
	Private bool
}

// System is what people have, and the apps for it.
type System struct {
	Name string
	Apps []App
}

// The forms of links are those that the apps document or register: v2rayNG's
// UrlSchemeActivity, hiddify.com/app/URL-Scheme, sing-box.sagernet.org under
// "import-remote-profile", Clash Verge Rev's deep links, Streisand's and
// Shadowrocket's own help.
func systems(link, title string) []System {
	q, name := url.QueryEscape(link), url.PathEscape(title)
	v2rayNG := App{Name: "v2rayNG", Link: template.URL("v2rayng://install-sub?url=" + q + "#" + name)}
	hiddify := App{Name: "Hiddify", Link: template.URL("hiddify://import/" + link + "#" + name), Private: true}
	singBox := App{Name: "sing-box", Link: template.URL("sing-box://import-remote-profile?url=" + q + "#" + name), Private: true}
	clash := App{Name: "Clash Verge", Link: template.URL("clash://install-config?url=" + q + "&name=" + strings.ReplaceAll(url.QueryEscape(title), "+", "%20")), Private: true}
	streisand := App{Name: "Streisand", Link: template.URL("streisand://import/" + link + "#" + name)}
	shadowrocket := App{Name: "Shadowrocket", Link: template.URL("sub://" + base64.RawURLEncoding.EncodeToString([]byte(link)) + "?remarks=" + name)}
	return []System{
		{"Android", []App{hiddify, v2rayNG, singBox}},
		{"iPhone, iPad", []App{streisand, hiddify, shadowrocket, singBox}},
		{"Windows, macOS, Linux", []App{hiddify, clash}},
	}
}
