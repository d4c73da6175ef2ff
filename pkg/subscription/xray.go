package subscription

import (
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// xrayConfig is the part of xtls.github.io/config that is used. It is a local
// proxy; everything goes through a node.
type xrayConfig struct {
	Remarks     string        `json:"remarks,omitempty"` // for apps that list configurations
	Log         xrayLog       `json:"log"`
	Inbounds    []xrayIn      `json:"inbounds"`
	Outbounds   []xrayOut     `json:"outbounds"`
	Routing     *xrayRouting  `json:"routing,omitempty"`
	Observatory *xrayObserver `json:"observatory,omitempty"`
}

type xrayLog struct {
	Level string `json:"loglevel"`
}

type xrayIn struct {
	Tag      string       `json:"tag"`
	Listen   string       `json:"listen"`
	Port     uint16       `json:"port"`
	Protocol string       `json:"protocol"`
	Settings xrayInOption `json:"settings"`
}

type xrayInOption struct {
	UDP bool `json:"udp,omitempty"`
}

type xrayRouting struct {
	Rules     []xrayRule     `json:"rules"`
	Balancers []xrayBalancer `json:"balancers"`
}

type xrayRule struct {
	Type     string `json:"type"`
	Network  string `json:"network"`
	Balancer string `json:"balancerTag"`
}

type xrayBalancer struct {
	Tag      string       `json:"tag"`
	Selector []string     `json:"selector"`
	Strategy xrayStrategy `json:"strategy"`
	Fallback string       `json:"fallbackTag"`
}

type xrayStrategy struct {
	Type string `json:"type"`
}

type xrayObserver struct {
	Subjects   []string `json:"subjectSelector"`
	URL        string   `json:"probeUrl"`
	Interval   string   `json:"probeInterval"`
	Concurrent bool     `json:"enableConcurrency"`
}

// xray holds all nodes, and goes through the one that answers fastest: of those
// that carry UDP, if there are any.
func (d document) xray() xrayConfig {
	c := xrayLocal(d.nodes, d.notice, false)
	nodes := d.nodes
	if udp := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !carriesUDP(n) }); len(udp) > 0 {
		nodes = udp
	}
	if len(nodes) < 2 {
		return c
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	c.Routing = &xrayRouting{
		Rules: []xrayRule{{"field", "tcp,udp", groupAuto}},
		// A selector takes names that begin with it; those are nodes too.
		Balancers: []xrayBalancer{{groupAuto, names, xrayStrategy{"leastPing"}, names[0]}},
	}
	c.Observatory = &xrayObserver{names, probeURL, "1m", true}
	return c
}

func carriesUDP(n Node) bool {
	return n.Offer.Protocol == mesh.ProtocolVLESS || n.Offer.Protocol == mesh.ProtocolTrojan
}

// xrayList is one configuration of all nodes, and one for each of them.
func (d document) xrayList() []xrayConfig {
	var out []xrayConfig
	if len(d.nodes) > 1 {
		all := d.xray()
		all.Remarks = groupAuto
		out = append(out, all)
	}
	for _, n := range d.nodes {
		one := xrayLocal([]Node{n}, "", false)
		one.Remarks = n.Name
		out = append(out, one)
	}
	if d.notice != "" {
		one := xrayLocal(nil, d.notice, false)
		one.Remarks = d.notice
		out = append(out, one)
	}
	return out
}

// v2ray goes through the first node: V2Ray 4 chooses at random or not at all.
func (d document) v2ray() xrayConfig { return xrayLocal(d.nodes, d.notice, true) }

func xrayLocal(nodes []Node, notice string, v4 bool) xrayConfig {
	c := xrayConfig{
		Log: xrayLog{"warning"},
		Inbounds: []xrayIn{
			{"socks-in", "127.0.0.1", 10808, "socks", xrayInOption{UDP: true}},
			{"http-in", "127.0.0.1", 10809, "http", xrayInOption{}},
		},
	}
	for _, n := range nodes {
		c.Outbounds = append(c.Outbounds, xrayNode(n, v4))
	}
	if notice != "" {
		c.Outbounds = append(c.Outbounds, xrayOut{Tag: notice, Protocol: "blackhole"})
	}
	return c
}

// lines of a PEM text, as these cores want it.
func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
