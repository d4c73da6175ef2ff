package subs

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
)

// entryAddress is where clients dial.
type entryAddress struct {
	host string
	port uint16
}

// entryAddresses leaves out what cannot be dialled.
func entryAddresses(c mesh.Config) []entryAddress {
	var out []entryAddress
	for _, a := range c.EntryAddresses {
		host, port, err := net.SplitHostPort(a)
		n, err2 := strconv.ParseUint(port, 10, 16)
		if err == nil && err2 == nil && host != "" && n > 0 {
			out = append(out, entryAddress{host, uint16(n)})
		}
	}
	return out
}

// ways are the nodes of a device in one cell, as the cell offers them: every
// offer at every entry. What cannot be used is told apart, with the reason.
func (w waysOf) ways() (nodes []subscription.Node, left []subscription.Left) {
	hide := func(name, why string) {
		left = append(left, subscription.Left{Name: name, Cell: w.cell.Name, Reason: why})
	}
	label, ok := newestLabel(w.device, w.now, w.routed)
	switch {
	case !ok:
		hide(w.cell.Name, "the device has no label that is valid now")
		return nil, left
	case len(w.entries) == 0:
		hide(w.cell.Name, "the configuration of the mesh names no entry address")
		return nil, left
	case w.cell.Certificate == mesh.CertificatePrivate && w.cell.CACert == "":
		hide(w.cell.Name, "the cell's own authority has no certificate yet")
		return nil, left
	}
	paths := newestPaths(w.cell, w.running, w.now)
	for _, o := range w.cell.Offered() {
		if paths == nil && (o.Transport == mesh.TransportWS || o.Transport == mesh.TransportGRPC) {
			hide(w.name(o, ""), "the cell has no path for this transport yet")
			continue
		}
		for _, e := range w.entries {
			nodes = append(nodes, w.node(o, e, label, paths))
		}
	}
	return nodes, left
}

// routed says whether entries know the device by that label.
func (w waysOf) routed(label string) bool {
	return w.routes(mesh.ServerName(label) + "." + w.cell.Suffix)
}

// waysOf is what the nodes of a device in a cell are made of.
type waysOf struct {
	device  mesh.Device
	cell    mesh.Cell
	guest   bool
	running mesh.NodeConfig // by its cores
	routes  func(mesh.ServerName) bool
	secret  mesh.Secret
	entries []entryAddress
	now     time.Time
}

func (w waysOf) node(o mesh.Offer, e entryAddress, label string, paths *mesh.Paths) subscription.Node {
	n := subscription.Node{
		Name: w.name(o, e.host), Cell: w.cell.Name, Guest: w.guest,
		Host: e.host, Port: e.port,
		ServerName: mesh.ServerName(label) + "." + w.cell.Suffix,
		HiddenHost: mesh.ServerName(w.device.HiddenLabel) + "." + w.cell.Suffix,
		Offer:      o,
		User:       string(w.device.ID), UUID: w.secret.UserID(w.device.ID), Password: w.secret,
	}
	switch o.Transport {
	case mesh.TransportWS:
		n.Path = paths.WebSocket
	case mesh.TransportGRPC:
		n.Service = paths.GRPC
	case mesh.TransportTCP: // nothing in between
	}
	if w.cell.Certificate == mesh.CertificatePrivate {
		n.CA = w.cell.CACert
	}
	return n
}

// name is what people see: the cell, how, and where when there are several ways in.
func (w waysOf) name(o mesh.Offer, host string) string {
	how := map[mesh.Protocol]string{
		mesh.ProtocolVLESS: "VLESS", mesh.ProtocolTrojan: "Trojan", mesh.ProtocolHTTP: "HTTPS", mesh.ProtocolSOCKS: "SOCKS",
	}[o.Protocol]
	switch o.Transport {
	case mesh.TransportWS:
		how += " WebSocket"
	case mesh.TransportGRPC:
		how += " gRPC"
	case mesh.TransportTCP:
	}
	if len(w.entries) > 1 && host != "" {
		return fmt.Sprintf("%s %s %s", w.cell.Name, how, host)
	}
	return w.cell.Name + " " + how
}

// newestLabel is the label that is to stay: new ones are put last. While that has
// no route yet, it is the newest that has.
func newestLabel(d mesh.Device, now time.Time, routed func(label string) bool) (newest string, ok bool) {
	for _, l := range slices.Backward(d.Labels) {
		if !l.NotAfter.IsZero() && !now.Before(l.NotAfter) {
			continue
		}
		if routed(l.Label) {
			return l.Label, true
		}
		if !ok {
			newest, ok = l.Label, true
		}
	}
	return newest, ok
}

// newestPaths are those that are to stay, nil if there are none. While others are
// being rolled out, or are parked, they are the newest that cores answer.
func newestPaths(c mesh.Cell, running mesh.NodeConfig, now time.Time) *mesh.Paths {
	paths := c.PathsAt(now)
	if len(paths) == 0 {
		return nil
	}
	p := paths[len(paths)-1]
	if answered, ok := running.Answers(c, now); ok {
		p = answered
	}
	if !strings.HasPrefix(p.WebSocket, "/") || p.GRPC == "" {
		return nil
	}
	return &p
}
