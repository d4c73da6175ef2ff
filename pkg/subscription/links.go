package subscription

import (
	"bytes"
	"fmt"
	"net"
	"strconv"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// links is a list of share links, as Xray's apps read them
// (github.com/XTLS/Xray-core/discussions/716), one a line.
func (d document) links() []byte {
	var b bytes.Buffer
	for _, n := range d.nodes {
		b.WriteString(link(n) + "\n")
	}
	if d.notice != "" {
		fmt.Fprintf(&b, "vless://%s@%s:%d?encryption=none&type=tcp#%s\n", nowhereUser, nowhereHost, nowherePort, escape(d.notice))
	}
	return b.Bytes()
}

func link(n Node) string {
	scheme, who, extra := "vless", n.UUID.Reveal(), "encryption=none&"
	if n.Offer.Protocol == mesh.ProtocolTrojan {
		scheme, who, extra = "trojan", escape(n.Password.Reveal()), ""
	}
	s := fmt.Sprintf("%s://%s@%s?%ssecurity=tls&sni=%s&fp=%s&type=%s", scheme, who,
		net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), extra, n.ServerName, clientHello, n.Offer.Transport)
	switch n.Offer.Transport {
	case mesh.TransportWS:
		s += "&host=" + string(n.ServerName) + "&path=" + escape(n.Path)
	case mesh.TransportGRPC:
		s += "&serviceName=" + escape(n.Service) + "&mode=gun"
	case mesh.TransportTCP:
	}
	return s + "#" + escape(n.Name)
}

// clientHello is the browser whose ClientHello clients that can are to send:
// that of Go is rare, and easily told from a browser's.
const clientHello = "chrome"

// escape leaves only what RFC 3986 calls unreserved. Apps differ in how they
// read a plus or a bracket.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b []byte
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
