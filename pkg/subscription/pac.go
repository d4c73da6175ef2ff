package subscription

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// pac is a proxy auto-configuration file. A browser resolves the device's own
// name, whose addresses are those of the entries. It has no way back to a
// direct connection: what cannot be reached through the mesh is not reached.
func (d document) pac() []byte {
	var b strings.Builder
	var proxies, doors []string
	for _, n := range d.nodes {
		if p := fmt.Sprintf("HTTPS %s:%d", n.ServerName, n.Port); !slices.Contains(proxies, p) {
			proxies = append(proxies, p)
		}
		if door := fmt.Sprintf("// %s: https://%s/", comment(n.Cell), n.HiddenHost); n.HiddenHost != "" && !slices.Contains(doors, door) {
			doors = append(doors, door)
		}
	}
	fmt.Fprintf(&b, "// %s\n", comment(d.profile.title()))
	if d.notice != "" {
		fmt.Fprintf(&b, "// %s\n", comment(d.notice))
	}
	if len(doors) > 0 {
		b.WriteString("// To log in, open this once in the browser, then enter user and password:\n" + strings.Join(doors, "\n") + "\n")
	}
	if len(proxies) == 0 {
		proxies = []string{fmt.Sprintf("PROXY %s:%d", nowhereHost, nowherePort)}
	}
	fmt.Fprintf(&b, `function FindProxyForURL(url, host) {
  if (isPlainHostName(host) || /\.(local|localhost)$/.test(host) ||
      /^(127|10|192\.168|172\.(1[6-9]|2\d|3[01])|169\.254)(\.\d+)+$/.test(host) ||
      host.indexOf(":") >= 0 && /^\[?(::1\]?$|f[cd]|fe[89ab])/i.test(host)) {
    return "DIRECT";
  }
  return "%s";
}
`, strings.Join(proxies, "; "))
	return []byte(b.String())
}

// comment is text on one line, whatever it was: controls, and what JavaScript
// takes for the end of a line, become spaces.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
