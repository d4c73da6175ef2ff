package subscription

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// ability is what a format can say of a node.
type ability struct {
	protocols []mesh.Protocol
	noGRPC    bool
	noCA      bool // cannot carry the authority of a private cell
}

func abilityOf(f Format) ability {
	const vless, trojan, http, socks = mesh.ProtocolVLESS, mesh.ProtocolTrojan, mesh.ProtocolHTTP, mesh.ProtocolSOCKS
	switch f {
	case FormatBase64, FormatPlain:
		return ability{protocols: []mesh.Protocol{vless, trojan}, noCA: true}
	case FormatClashOld:
		return ability{protocols: []mesh.Protocol{trojan, http}, noCA: true}
	case FormatClash, FormatSingBox, FormatSingBoxLocal, FormatSingBoxOld, FormatSingBoxOldLocal, FormatSingBoxOutbounds:
		return ability{protocols: []mesh.Protocol{vless, trojan, http}} // SOCKS there is without TLS, or without its name
	case FormatV2Ray:
		return ability{protocols: []mesh.Protocol{vless, trojan, http, socks}, noGRPC: true}
	case FormatPAC:
		return ability{protocols: []mesh.Protocol{http}, noCA: true}
	case FormatCurl:
		return ability{protocols: []mesh.Protocol{http}}
	}
	return ability{protocols: []mesh.Protocol{vless, trojan, http, socks}}
}

// Reasons for which a format is without a node.
const (
	leftProtocol = "this format cannot say that the node speaks "
	leftGRPC     = "this format is for clients without gRPC"
	leftHost     = "its address is neither a DNS name nor an IP address"
	leftCA       = "the cell has a private authority, which this format cannot carry"
)

// Select returns the nodes of p that f can carry, with the names they get
// there, and those that it cannot, with the reason. A device that is not served
// has none of either.
func Select(f Format, p Profile) ([]Node, []Left) {
	if p.Standing != mesh.StandingOK {
		return nil, nil
	}
	var in []Node
	var left []Left
	can := abilityOf(f)
	if f == FormatPAC && p.TrustsCA {
		can.noCA = false
	}
	for _, n := range named(p.Nodes) {
		switch {
		case !dialable(n.Host):
			left = append(left, Left{n.Name, n.Cell, leftHost})
		case !slices.Contains(can.protocols, n.Offer.Protocol):
			left = append(left, Left{n.Name, n.Cell, leftProtocol + string(n.Offer.Protocol)})
		case can.noGRPC && n.Offer.Transport == mesh.TransportGRPC:
			left = append(left, Left{n.Name, n.Cell, leftGRPC})
		case can.noCA && n.CA != "":
			left = append(left, Left{n.Name, n.Cell, leftCA})
		default:
			in = append(in, n)
		}
	}
	return in, left
}

// dialable says whether host may stand in a document: a DNS name as resolvers
// take it, or an address without a zone.
func dialable(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	})
}
