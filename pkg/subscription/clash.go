package subscription

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// probeURL is fetched by clients through a node to see whether it works.
const probeURL = "https://www.gstatic.com/generate_204"

// clashConfig is the part of wiki.metacubex.one/en/config that is used. The
// authority of a private cell is among the anchors, not a fingerprint at the
// node: releases of mihomo that are in use took whatever leaf came along with a
// certificate of that fingerprint.
type clashConfig struct {
	MixedPort int          `yaml:"mixed-port"`
	AllowLAN  bool         `yaml:"allow-lan"`
	Mode      string       `yaml:"mode"`
	LogLevel  string       `yaml:"log-level"`
	IPv6      bool         `yaml:"ipv6"`
	TLS       *clashTLS    `yaml:"tls,omitempty"`
	DNS       clashDNS     `yaml:"dns"`
	Proxies   []clashProxy `yaml:"proxies"`
	Groups    []clashGroup `yaml:"proxy-groups"`
	Rules     []string     `yaml:"rules"`
}

type clashTLS struct {
	Certificates []string `yaml:"custom-certifactes"` // sic
}

// clashDNS gives applications addresses that stand for names, so that names are
// resolved at the core.
type clashDNS struct {
	Enable      bool     `yaml:"enable"`
	IPv6        bool     `yaml:"ipv6"`
	Mode        string   `yaml:"enhanced-mode"`
	FakeRange   string   `yaml:"fake-ip-range"`
	NameServers []string `yaml:"nameserver"`
}

type clashProxy struct {
	Name        quoted     `yaml:"name"`
	Type        string     `yaml:"type"`
	Server      quoted     `yaml:"server"`
	Port        uint16     `yaml:"port"`
	UUID        quoted     `yaml:"uuid,omitempty"`
	Username    quoted     `yaml:"username,omitempty"`
	Password    quoted     `yaml:"password,omitempty"`
	UDP         bool       `yaml:"udp,omitempty"`
	TLS         bool       `yaml:"tls,omitempty"`
	ServerName  quoted     `yaml:"servername,omitempty"`
	SNI         quoted     `yaml:"sni,omitempty"`
	ClientHello string     `yaml:"client-fingerprint,omitempty"`
	Packets     string     `yaml:"packet-encoding,omitempty"`
	Network     string     `yaml:"network,omitempty"`
	WS          *clashWS   `yaml:"ws-opts,omitempty"`
	GRPC        *clashGRPC `yaml:"grpc-opts,omitempty"`
}

type clashWS struct {
	Path    quoted            `yaml:"path"`
	Headers map[string]quoted `yaml:"headers"`
}

type clashGRPC struct {
	Service quoted `yaml:"grpc-service-name"`
}

type clashGroup struct {
	Name     string   `yaml:"name"`
	Type     string   `yaml:"type"`
	Proxies  []quoted `yaml:"proxies"`
	URL      string   `yaml:"url,omitempty"`
	Interval int      `yaml:"interval,omitempty"` // seconds
}

// quoted text stands between double quotes whatever it is, so that no reader
// takes it for a number, a date or a truth.
type quoted string

// MarshalYAML quotes.
func (q quoted) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.ToValidUTF8(string(q), "\uFFFD"), Style: yaml.DoubleQuotedStyle}, nil
}

func (d document) clash() ([]byte, error) {
	c := clashConfig{
		MixedPort: 7890, Mode: "rule", LogLevel: "warning", IPv6: true,
		DNS: clashDNS{
			Enable: true, IPv6: true, Mode: "fake-ip", FakeRange: "198.18.0.1/16",
			NameServers: []string{"https://1.1.1.1/dns-query", "https://8.8.8.8/dns-query"},
		},
		Rules: []string{
			"IP-CIDR,127.0.0.0/8,DIRECT,no-resolve", "IP-CIDR,10.0.0.0/8,DIRECT,no-resolve",
			"IP-CIDR,172.16.0.0/12,DIRECT,no-resolve", "IP-CIDR,192.168.0.0/16,DIRECT,no-resolve",
			"IP-CIDR,169.254.0.0/16,DIRECT,no-resolve", "IP-CIDR6,::1/128,DIRECT,no-resolve",
			"IP-CIDR6,fc00::/7,DIRECT,no-resolve", "IP-CIDR6,fe80::/10,DIRECT,no-resolve",
			"MATCH," + groupProxy,
		},
	}
	var names []quoted
	for _, name := range d.names() {
		names = append(names, quoted(name))
	}
	c.Groups = []clashGroup{
		{Name: groupProxy, Type: "select", Proxies: append([]quoted{groupAuto}, names...)},
		{Name: groupAuto, Type: "fallback", Proxies: names, URL: probeURL, Interval: 300},
	}
	for _, n := range d.nodes {
		c.Proxies = append(c.Proxies, clashNode(n))
	}
	if d.notice != "" {
		c.Proxies = append(c.Proxies, clashProxy{Name: quoted(d.notice), Type: "http", Server: nowhereHost, Port: nowherePort})
	}
	if cas := authorities(d.nodes); len(cas) > 0 {
		c.TLS = &clashTLS{Certificates: cas}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(c); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func clashNode(n Node) clashProxy {
	p := clashProxy{Name: quoted(n.Name), Type: string(n.Offer.Protocol), Server: quoted(n.Host), Port: n.Port}
	switch n.Offer.Protocol {
	case mesh.ProtocolVLESS:
		p.UUID, p.TLS, p.UDP, p.ServerName, p.Packets = quoted(n.UUID.Reveal()), true, true, quoted(n.ServerName), "xudp"
		p.ClientHello = clientHello
	case mesh.ProtocolTrojan:
		p.Password, p.UDP, p.SNI, p.ClientHello = quoted(n.Password.Reveal()), true, quoted(n.ServerName), clientHello
	case mesh.ProtocolHTTP:
		p.Username, p.Password, p.TLS, p.SNI = quoted(n.User), quoted(n.Password.Reveal()), true, quoted(n.ServerName)
	case mesh.ProtocolSOCKS: // Select leaves it out
	}
	switch n.Offer.Transport {
	case mesh.TransportWS:
		p.Network, p.WS = "ws", &clashWS{quoted(n.Path), map[string]quoted{"Host": quoted(n.ServerName)}}
	case mesh.TransportGRPC:
		p.Network, p.GRPC = "grpc", &clashGRPC{quoted(n.Service)}
	case mesh.TransportTCP:
	}
	return p
}

// authorities of private cells, each once.
func authorities(nodes []Node) []string {
	var out []string
	for _, n := range nodes {
		if n.CA != "" && !slices.Contains(out, n.CA) {
			out = append(out, n.CA)
		}
	}
	return out
}
