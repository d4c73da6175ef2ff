//go:build clients

package clients

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// served: configurations written by hand.
func served(t *testing.T, l local) []byte {
	m := run.mesh
	link := call(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(m.Device.ID)})
	entry := netip.MustParseAddrPort(m.EntryAddresses[0])
	user := mesh.Secret(link.Secret).UserID(m.Device.ID)
	var out []any
	for _, o := range mesh.Offers() {
		if l.program == "sing-box" {
			x := map[string]any{"tag": o.String(), "type": string(o.Protocol), "server": entry.Addr().String(), "server_port": entry.Port(),
				"tls": map[string]any{"enabled": true, "server_name": string(link.ServerName), "certificate": strings.Split(strings.TrimSpace(link.CA), "\n")}}
			switch o.Protocol {
			case mesh.ProtocolVLESS:
				x["uuid"] = user.Reveal()
			case mesh.ProtocolTrojan:
				x["password"] = link.Secret
			case mesh.ProtocolHTTP:
				x["username"], x["password"] = link.User, link.Secret
			default:
				continue
			}
			switch o.Transport {
			case mesh.TransportWS:
				x["transport"] = map[string]any{"type": "ws", "path": "/ws"}
			case mesh.TransportGRPC:
				x["transport"] = map[string]any{"type": "grpc", "service_name": "gun"}
			}
			out = append(out, x)
			continue
		}
		if o.Transport == mesh.TransportGRPC && l.program == "v2ray" {
			continue
		}
		server := map[string]any{"address": entry.Addr().String(), "port": entry.Port()}
		settings := map[string]any{"servers": []any{server}}
		switch o.Protocol {
		case mesh.ProtocolVLESS:
			settings = map[string]any{"vnext": []any{server}}
			server["users"] = []any{map[string]any{"id": user.Reveal(), "encryption": "none"}}
		case mesh.ProtocolTrojan:
			server["password"] = link.Secret
		case mesh.ProtocolHTTP:
			server["users"] = []any{map[string]any{"user": link.User, "pass": link.Secret}}
		default:
			continue
		}
		stream := map[string]any{"network": string(o.Transport), "security": "tls", "tlsSettings": map[string]any{
			"serverName": string(link.ServerName), "certificates": []any{map[string]any{"usage": "verify", "certificate": strings.Split(strings.TrimSpace(link.CA), "\n")}}}}
		switch o.Transport {
		case mesh.TransportWS:
			stream["wsSettings"] = map[string]any{"path": "/ws"}
		case mesh.TransportGRPC:
			stream["grpcSettings"] = map[string]any{"serviceName": "gun"}
		}
		out = append(out, map[string]any{"tag": o.String(), "protocol": string(o.Protocol), "settings": settings, "streamSettings": stream})
	}
	data, err := json.Marshal(map[string]any{"outbounds": out, "log": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
