package subscription

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// curl is a shell script that runs curl, with the script's own arguments,
// through the first node: sh SCRIPT https://example.com/. The lines for the
// other nodes are there as comments.
func (d document) curl() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\n# %s\n", comment(d.profile.title()))
	if len(d.nodes) == 0 {
		fmt.Fprintf(&b, "echo %s >&2\nexit 1\n", shell(d.notice))
		return []byte(b.String())
	}
	cas := authorities(d.nodes)
	if len(cas) > 0 {
		fmt.Fprintf(&b, "ca=$(mktemp) || exit 1\ntrap 'rm -f \"$ca\"' EXIT\nprintf '%%s' %s > \"$ca\"\n", shell(strings.Join(cas, "\n")))
	}
	for i, n := range d.nodes {
		before := ""
		if i > 0 {
			before = "# "
		}
		fmt.Fprintf(&b, "# %s\n%s%s\n", comment(n.Name), before, curlLine(n))
	}
	return []byte(b.String())
}

// curlLine fetches what the script is told through n. An entry known by address
// needs no name service; of one known by name, the device's own name must lead
// to it.
func curlLine(n Node) string {
	at := net.JoinHostPort(string(n.ServerName), strconv.Itoa(int(n.Port)))
	s := "curl --proxy " + shell("https://"+at)
	if ip, err := netip.ParseAddr(n.Host); err == nil {
		host := ip.String()
		if ip.Is6() {
			host = "[" + host + "]"
		}
		s += " --resolve " + shell(at+":"+host)
	}
	if n.CA != "" {
		s += ` --proxy-cacert "$ca"`
	}
	return s + " --proxy-user " + shell(n.User+":"+n.Password.Reveal()) + ` "$@"`
}

// shell is one word of a shell, whatever is in it but NUL.
func shell(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
