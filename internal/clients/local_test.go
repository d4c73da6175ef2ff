//go:build clients

package clients

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// local is a client program that other programs of its machine reach by SOCKS.
// Its configuration is what it was served but for where it listens and which of
// the nodes it uses.
type local struct {
	row     string // of the table
	program string
	agent   string // the User-Agent of the app in which the program is
	args    []string
	env     []string // beside that of this process
	dialect dialect
}

// dialect knows a kind of configuration.
type dialect interface {
	// offer is that of an outbound, when it is a node.
	offer(outbound map[string]any) (mesh.Offer, bool)
	// use makes the configuration listen for SOCKS at addr, and send all it gets
	// there to the node; to where it goes anyway when node is "".
	use(config map[string]any, addr *net.TCPAddr, node string)
}

// locals are those programs, each as the apps that it is in.
func locals(t *testing.T) []local {
	t.Helper()
	v2ray := version(t, "v2ray")
	return []local{
		{row: "Xray " + xrayVersion, program: "xray", agent: "Xray/" + xrayVersion, args: []string{"run", "-c"}, dialect: xrayDialect{}},
		{row: "sing-box " + singboxVersion, program: "sing-box", agent: "sing-box " + singboxVersion, args: []string{"run", "-c"}, dialect: singboxDialect{}},
		{row: "sing-box " + singboxVersion + ", as its Android app", program: "sing-box", agent: "SFA/" + singboxVersion + " (Build 1; sing-box " + singboxVersion + ")", args: []string{"run", "-c"}, dialect: singboxDialect{}},
		{row: "sing-box " + singboxOld, program: "sing-box-old", agent: "sing-box " + singboxOld, args: []string{"run", "-c"}, dialect: singboxDialect{}},
		{row: "sing-box " + singboxOld + ", as its Android app", program: "sing-box-old", agent: "SFA/" + singboxOld + " (Build 1; sing-box " + singboxOld + ")", args: []string{"run", "-c"}, dialect: singboxDialect{}},
		{row: "V2Ray " + v2ray + " (Debian)", program: "v2ray", agent: "V2Ray/" + v2ray, args: []string{"-config"}, dialect: xrayDialect{}},
	}
}

// node is one way in that a configuration has.
type node struct {
	tag   string
	offer mesh.Offer
}

// nodes lists the first node of each offer in a configuration.
func (l local) nodes(t *testing.T, body []byte) []node {
	t.Helper()
	var config struct{ Outbounds []map[string]any }
	if err := json.Unmarshal(body, &config); err != nil {
		t.Fatalf("%s was served no JSON: %v\n%.300s", l.row, err, body)
	}
	var out []node
	for _, o := range config.Outbounds {
		tag, _ := o["tag"].(string)
		offer, ok := l.dialect.offer(o)
		if ok && !slices.ContainsFunc(out, func(n node) bool { return n.offer == offer }) {
			out = append(out, node{tag, offer})
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s was served no node:\n%s", l.row, body)
	}
	return out
}

// run starts the program until the test ends.
func (l local) run(t *testing.T, body []byte, node string) socks {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(body, &config); err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	l.dialect.use(config, addr, node)
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	start(t, addr.String(), l.env, l.program, append(slices.Clone(l.args), write(t, "config.json", data))...)
	return socks(addr.String())
}

// offerOf reads the words of the configurations, which differ in some.
func offerOf(protocol, transport string) (o mesh.Offer, ok bool) {
	switch transport {
	case "", "raw":
		transport = "tcp"
	case "gun":
		transport = "grpc"
	}
	err := o.UnmarshalText(fmt.Appendf(nil, "%s-%s", strings.ToLower(protocol), transport))
	return o, err == nil
}

// Xray and V2Ray: https://xtls.github.io/en/config/
type xrayDialect struct{}

func (xrayDialect) offer(outbound map[string]any) (mesh.Offer, bool) {
	stream, _ := outbound["streamSettings"].(map[string]any)
	network, _ := stream["network"].(string)
	protocol, _ := outbound["protocol"].(string)
	return offerOf(protocol, network)
}

func (xrayDialect) use(config map[string]any, addr *net.TCPAddr, node string) {
	config["log"] = map[string]any{"loglevel": "debug"}
	config["inbounds"] = []any{map[string]any{
		"tag": "test", "protocol": "socks", "listen": addr.IP.String(), "port": addr.Port, "settings": map[string]any{"udp": true},
	}}
	if node == "" {
		return
	}
	rule := map[string]any{"type": "field", "inboundTag": []string{"test"}, "outboundTag": node}
	routing, _ := config["routing"].(map[string]any)
	if routing == nil {
		routing = map[string]any{}
		config["routing"] = routing
	}
	rules, _ := routing["rules"].([]any)
	routing["rules"] = append([]any{rule}, rules...)
}

// sing-box: https://sing-box.sagernet.org/configuration/
type singboxDialect struct{}

func (singboxDialect) offer(outbound map[string]any) (mesh.Offer, bool) {
	transport, _ := outbound["transport"].(map[string]any)
	kind, _ := transport["type"].(string)
	protocol, _ := outbound["type"].(string)
	return offerOf(protocol, kind)
}

func (singboxDialect) use(config map[string]any, addr *net.TCPAddr, node string) {
	config["inbounds"] = []any{map[string]any{"type": "mixed", "tag": "test", "listen": addr.IP.String(), "listen_port": addr.Port}}
	config["log"] = map[string]any{"level": "debug"}
	if node == "" {
		return
	}
	route, _ := config["route"].(map[string]any)
	if route == nil {
		route = map[string]any{}
		config["route"] = route
	}
	rules, _ := route["rules"].([]any)
	rule := map[string]any{"inbound": []string{"test"}, "outbound": node}
	route["rules"] = append([]any{rule}, rules...)
}
