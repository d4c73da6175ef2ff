package subscription

import "github.com/meshctl/meshctl/pkg/mesh"

type xrayOut struct {
	Tag      string        `json:"tag"`
	Protocol string        `json:"protocol"`
	Settings *xrayTarget   `json:"settings,omitempty"`
	Stream   *xrayCarriage `json:"streamSettings,omitempty"`
}

type xrayTarget struct {
	VNext   []xrayServer `json:"vnext,omitempty"`
	Servers []xrayServer `json:"servers,omitempty"`
}

type xrayServer struct {
	Address  string     `json:"address"`
	Port     uint16     `json:"port"`
	Password string     `json:"password,omitempty"`
	Users    []xrayUser `json:"users,omitempty"`
}

type xrayUser struct {
	ID         string `json:"id,omitempty"`
	Encryption string `json:"encryption,omitempty"`
	User       string `json:"user,omitempty"`
	Pass       string `json:"pass,omitempty"`
}

type xrayCarriage struct {
	Network  string    `json:"network"`
	Security string    `json:"security"`
	TLS      xrayTLS   `json:"tlsSettings"`
	WS       *xrayWS   `json:"wsSettings,omitempty"`
	GRPC     *xrayGRPC `json:"grpcSettings,omitempty"`
}

type xrayTLS struct {
	ServerName   string     `json:"serverName"`
	Fingerprint  string     `json:"fingerprint,omitempty"`
	NoSystemRoot bool       `json:"disableSystemRoot,omitempty"`
	Certificates []xrayCert `json:"certificates,omitempty"`
}

type xrayCert struct {
	Usage       string   `json:"usage"`
	Certificate []string `json:"certificate"`
}

type xrayWS struct {
	Path    string            `json:"path"`
	Host    string            `json:"host,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // V2Ray 4
}

type xrayGRPC struct {
	Service string `json:"serviceName"`
}

func xrayNode(n Node, v4 bool) xrayOut {
	o := xrayOut{Tag: n.Name, Protocol: string(n.Offer.Protocol), Settings: &xrayTarget{}, Stream: xrayStream(n, v4)}
	server := xrayServer{Address: n.Host, Port: n.Port}
	switch n.Offer.Protocol {
	case mesh.ProtocolVLESS:
		server.Users = []xrayUser{{ID: n.UUID.Reveal(), Encryption: "none"}}
		o.Settings.VNext = []xrayServer{server}
		return o
	case mesh.ProtocolTrojan:
		server.Password = n.Password.Reveal()
	case mesh.ProtocolHTTP, mesh.ProtocolSOCKS:
		server.Users = []xrayUser{{User: n.User, Pass: n.Password.Reveal()}}
	}
	o.Settings.Servers = []xrayServer{server}
	return o
}

func xrayStream(n Node, v4 bool) *xrayCarriage {
	s := &xrayCarriage{Network: string(n.Offer.Transport), Security: "tls", TLS: xrayTLS{ServerName: string(n.ServerName)}}
	if !v4 {
		s.TLS.Fingerprint = clientHello
	}
	if n.CA != "" {
		s.TLS.NoSystemRoot = true
		s.TLS.Certificates = []xrayCert{{"verify", lines(n.CA)}}
	}
	switch {
	case n.Offer.Transport == mesh.TransportWS && v4:
		s.WS = &xrayWS{Path: n.Path, Headers: map[string]string{"Host": string(n.ServerName)}}
	case n.Offer.Transport == mesh.TransportWS:
		s.WS = &xrayWS{Path: n.Path, Host: string(n.ServerName)}
	case n.Offer.Transport == mesh.TransportGRPC:
		s.GRPC = &xrayGRPC{n.Service}
	}
	return s
}
