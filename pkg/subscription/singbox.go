package subscription

import "github.com/meshctl/meshctl/pkg/mesh"

// singBoxConfig is the part of sing-box.sagernet.org/configuration that is used.
type singBoxConfig struct {
	Log       *singBoxLog  `json:"log,omitempty"`
	DNS       *singBoxDNS  `json:"dns,omitempty"`
	Inbounds  []singBoxIn  `json:"inbounds,omitempty"`
	Outbounds []singBoxOut `json:"outbounds"`
	Route     *singBoxRoad `json:"route,omitempty"`
}

type singBoxLog struct {
	Level string `json:"level"`
}

type singBoxDNS struct {
	Servers []singBoxServer `json:"servers"`
	Rules   []singBoxRule   `json:"rules,omitempty"`
	Final   string          `json:"final"`
}

type singBoxServer struct {
	Tag     string `json:"tag"`
	Type    string `json:"type,omitempty"`
	Server  string `json:"server,omitempty"`
	Address string `json:"address,omitempty"` // before 1.12
	Detour  string `json:"detour,omitempty"`
}

type singBoxIn struct {
	Type        string   `json:"type"`
	Tag         string   `json:"tag"`
	Listen      string   `json:"listen,omitempty"`
	Port        uint16   `json:"listen_port,omitempty"`
	Address     []string `json:"address,omitempty"`
	AutoRoute   bool     `json:"auto_route,omitempty"`
	StrictRoute bool     `json:"strict_route,omitempty"`
	Sniff       bool     `json:"sniff,omitempty"` // before 1.11
}

type singBoxRule struct {
	Action   string `json:"action,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Private  bool   `json:"ip_is_private,omitempty"`
	Outbound string `json:"outbound,omitempty"`
	Server   string `json:"server,omitempty"`
}

type singBoxRoad struct {
	Rules         []singBoxRule `json:"rules,omitempty"`
	Final         string        `json:"final"`
	AutoInterface bool          `json:"auto_detect_interface,omitempty"`
	Resolver      string        `json:"default_domain_resolver,omitempty"` // from 1.12
}

const tagLocal, tagRemote, resolver = "local", "remote", "1.1.1.1"

func (d document) singBox(f Format) singBoxConfig {
	c := singBoxConfig{Log: &singBoxLog{"warn"}, Outbounds: d.singBoxOutbounds()}
	switch f {
	case FormatSingBoxOutbounds:
		c.Log = nil
	case FormatSingBoxLocal:
		c.Inbounds = []singBoxIn{singBoxMixed()}
		c.DNS = &singBoxDNS{Servers: []singBoxServer{{Tag: tagLocal, Type: "local"}}, Final: tagLocal}
		c.Route = &singBoxRoad{Final: groupProxy, Resolver: tagLocal}
	case FormatSingBoxOldLocal:
		c.Inbounds = []singBoxIn{singBoxMixed()}
		c.Route = &singBoxRoad{Final: groupProxy}
	case FormatSingBoxOld:
		d.singBoxOld(&c)
	default:
		d.singBoxNew(&c)
	}
	return c
}

// singBoxNew takes all traffic of a device; its questions for names too, which
// go through the mesh.
func (d document) singBoxNew(c *singBoxConfig) {
	c.DNS = &singBoxDNS{
		Servers: []singBoxServer{
			{Tag: tagRemote, Type: "https", Server: resolver, Detour: groupProxy},
			{Tag: tagLocal, Type: "local"},
		},
		Final: tagRemote,
	}
	c.Inbounds = []singBoxIn{singBoxTun()}
	c.Outbounds = append(c.Outbounds, singBoxOut{Type: "direct", Tag: tagDirect})
	c.Route = &singBoxRoad{
		Rules: []singBoxRule{
			{Action: "sniff"},
			{Protocol: "dns", Action: "hijack-dns"},
			{Private: true, Outbound: tagDirect},
		},
		Final: groupProxy, AutoInterface: true, Resolver: tagLocal,
	}
}

// singBoxOld says the same to 1.10 and 1.11.
func (d document) singBoxOld(c *singBoxConfig) {
	c.DNS = &singBoxDNS{
		Servers: []singBoxServer{
			{Tag: tagRemote, Address: "https://" + resolver + "/dns-query", Detour: groupProxy},
			{Tag: tagLocal, Address: "local", Detour: tagDirect},
		},
		Rules: []singBoxRule{{Outbound: "any", Server: tagLocal}},
		Final: tagRemote,
	}
	tun := singBoxTun()
	tun.Sniff = true
	c.Inbounds = []singBoxIn{tun}
	c.Outbounds = append(c.Outbounds, singBoxOut{Type: "direct", Tag: tagDirect}, singBoxOut{Type: "dns", Tag: tagDNS})
	c.Route = &singBoxRoad{
		Rules: []singBoxRule{{Protocol: "dns", Outbound: tagDNS}, {Private: true, Outbound: tagDirect}},
		Final: groupProxy, AutoInterface: true,
	}
}

func singBoxTun() singBoxIn {
	return singBoxIn{
		Type: "tun", Tag: "tun-in", Address: []string{"172.19.0.1/30", "fdfe:dcba:9876::1/126"},
		AutoRoute: true, StrictRoute: true,
	}
}

func singBoxMixed() singBoxIn {
	return singBoxIn{Type: "mixed", Tag: "mixed-in", Listen: "127.0.0.1", Port: 2080}
}

// singBoxOutbounds are a group to choose from, a group that chooses what
// answers fastest, and the nodes.
func (d document) singBoxOutbounds() []singBoxOut {
	names := d.names()
	out := []singBoxOut{
		{Type: "selector", Tag: groupProxy, Outbounds: append([]string{groupAuto}, names...), Default: groupAuto},
		{Type: "urltest", Tag: groupAuto, Outbounds: names, URL: probeURL, Interval: "3m"},
	}
	for _, n := range d.nodes {
		out = append(out, singBoxNode(n))
	}
	if d.notice != "" {
		out = append(out, singBoxOut{Type: "http", Tag: d.notice, Server: nowhereHost, Port: nowherePort})
	}
	return out
}

type singBoxOut struct {
	Type      string           `json:"type"`
	Tag       string           `json:"tag"`
	Outbounds []string         `json:"outbounds,omitempty"`
	Default   string           `json:"default,omitempty"`
	URL       string           `json:"url,omitempty"`
	Interval  string           `json:"interval,omitempty"`
	Server    string           `json:"server,omitempty"`
	Port      uint16           `json:"server_port,omitempty"`
	UUID      string           `json:"uuid,omitempty"`
	Username  string           `json:"username,omitempty"`
	Password  string           `json:"password,omitempty"`
	Packets   string           `json:"packet_encoding,omitempty"`
	TLS       *singBoxTLS      `json:"tls,omitempty"`
	Transport *singBoxCarriage `json:"transport,omitempty"`
}

type singBoxTLS struct {
	Enabled     bool         `json:"enabled"`
	ServerName  string       `json:"server_name"`
	Certificate string       `json:"certificate,omitempty"` // PEM
	UTLS        *singBoxUTLS `json:"utls,omitempty"`
}

type singBoxUTLS struct {
	Enabled     bool   `json:"enabled"`
	Fingerprint string `json:"fingerprint"`
}

type singBoxCarriage struct {
	Type    string            `json:"type"`
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Service string            `json:"service_name,omitempty"`
}

func singBoxNode(n Node) singBoxOut {
	o := singBoxOut{
		Type: string(n.Offer.Protocol), Tag: n.Name, Server: n.Host, Port: n.Port,
		TLS: &singBoxTLS{
			Enabled: true, ServerName: string(n.ServerName), Certificate: n.CA,
			UTLS: &singBoxUTLS{true, clientHello},
		},
	}
	switch n.Offer.Protocol {
	case mesh.ProtocolVLESS:
		o.UUID, o.Packets = n.UUID.Reveal(), "xudp"
	case mesh.ProtocolTrojan:
		o.Password = n.Password.Reveal()
	case mesh.ProtocolHTTP:
		o.Username, o.Password = n.User, n.Password.Reveal()
	case mesh.ProtocolSOCKS: // Select leaves it out
	}
	switch n.Offer.Transport {
	case mesh.TransportWS:
		o.Transport = &singBoxCarriage{Type: "ws", Path: n.Path, Headers: map[string]string{"Host": string(n.ServerName)}}
	case mesh.TransportGRPC:
		o.Transport = &singBoxCarriage{Type: "grpc", Service: n.Service}
	case mesh.TransportTCP:
	}
	return o
}
